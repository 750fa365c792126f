"""A member of a group by our own client. Events and options: see reporting.py."""

from __future__ import annotations

from typing import Any

from reporting import POLL_SECONDS, Consumed, Stop, emit, emit_committed, options, places

from tidelog import Consumer, RebalanceListener, TopicPartition
from tidelog.client.errors import ClientError


class Reporting(RebalanceListener):
    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        emit("partitions_assigned", partitions=places(partitions))

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        emit("partitions_revoked", partitions=places(partitions))


def main() -> None:
    given = options()
    stop = Stop()
    config: dict[str, Any] = {
        "bootstrap.servers": given.bootstrap_server,
        "group.id": given.group_id,
        "auto.offset.reset": given.reset_policy,
        "enable.auto.commit": given.enable_autocommit,
        "auto.commit.interval.ms": 500,
        "metadata.max.age.ms": 1_000,
        "fetch.max.wait.ms": 100,
    }
    if given.group_protocol == "consumer":
        config["group.protocol"] = "consumer"
        if given.assignment_strategy in ("uniform", "range"):
            config["group.remote.assignor"] = given.assignment_strategy
    else:
        config["session.timeout.ms"] = given.session_timeout
        config["heartbeat.interval.ms"] = max(given.session_timeout // 6, 100)
        config["partition.assignment.strategy"] = given.assignment_strategy
    if given.group_instance_id:
        config["group.instance.id"] = given.group_instance_id
    client = Consumer(config)
    client.subscribe([given.topic], listener=Reporting())
    emit("startup_complete")
    while not stop.wanted:
        consumed = Consumed()
        for record in client.poll(POLL_SECONDS):
            consumed.add(record.topic, record.partition, record.offset)
        if consumed.ranges:
            consumed.emit()
            if not given.enable_autocommit:
                try:
                    client.commit({TopicPartition(*place): offset for place, offset in consumed.next_offsets().items()})
                    emit_committed(consumed.next_offsets())
                except ClientError as error:
                    emit_committed(consumed.next_offsets(), error)
    client.close()
    emit("shutdown_complete")


if __name__ == "__main__":
    main()
