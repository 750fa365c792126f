"""A member of a group by confluent-kafka (librdkafka). Events and options: see reporting.py."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition
from reporting import POLL_SECONDS, Consumed, Stop, emit, emit_committed, options, places

RECORDS_PER_POLL = 500


def main() -> None:
    given = options()
    stop = Stop()
    config: dict[str, Any] = {
        "bootstrap.servers": given.bootstrap_server,
        "group.id": given.group_id,
        "auto.offset.reset": given.reset_policy,
        "enable.auto.commit": given.enable_autocommit,
        "auto.commit.interval.ms": 500,
        "topic.metadata.refresh.interval.ms": 1_000,
        "fetch.wait.max.ms": 100,
        "reconnect.backoff.max.ms": 500,
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
    client.subscribe(
        [given.topic],
        on_assign=lambda _, partitions: emit(
            "partitions_assigned", partitions=places(partitions), member=client.memberid()
        ),
        on_revoke=lambda _, partitions: emit("partitions_revoked", partitions=places(partitions)),
        on_lost=lambda _, partitions: emit("partitions_revoked", partitions=places(partitions), lost=True),
    )
    emit("startup_complete")
    while not stop.wanted:
        consumed = Consumed()
        for message in client.consume(RECORDS_PER_POLL, timeout=POLL_SECONDS):
            if message.error() is None:
                consumed.add(message.topic(), message.partition(), message.offset())
        if consumed.ranges:
            consumed.emit()
            if not given.enable_autocommit:
                commit(client, consumed.next_offsets())
    client.close()
    emit("shutdown_complete")


def commit(client: Consumer, offsets: dict[tuple[str, int], int]) -> None:
    wanted = [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]
    try:
        answers = client.commit(offsets=wanted, asynchronous=False)
        refused = [answer.error for answer in answers if answer.error is not None]
        emit_committed(offsets, KafkaException(refused[0]) if refused else None)
    except KafkaException as error:
        emit_committed(offsets, error)


if __name__ == "__main__":
    main()
