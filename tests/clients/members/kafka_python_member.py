"""A member of a group by kafka-python. Events and options: see reporting.py."""

from __future__ import annotations

from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata
from reporting import Consumed, Stop, emit, emit_committed, options, places

# kafka-python 3.0 forgets to finish a join that is under way when the time of a poll is up: give it time.
POLL_MS = 2_000
STRATEGIES = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}


class Reports(ConsumerRebalanceListener):  # type: ignore[misc]
    def on_partitions_assigned(self, assigned: Any) -> None:
        emit("partitions_assigned", partitions=places(assigned))

    def on_partitions_revoked(self, revoked: Any) -> None:
        emit("partitions_revoked", partitions=places(revoked))

    def on_partitions_lost(self, lost: Any) -> None:
        emit("partitions_revoked", partitions=places(lost), lost=True)


def main() -> None:
    given = options()
    stop = Stop()
    client = KafkaConsumer(
        bootstrap_servers=given.bootstrap_server,
        group_id=given.group_id,
        group_instance_id=given.group_instance_id,
        auto_offset_reset=given.reset_policy,
        enable_auto_commit=given.enable_autocommit,
        auto_commit_interval_ms=500,
        session_timeout_ms=given.session_timeout,
        heartbeat_interval_ms=max(given.session_timeout // 6, 100),
        partition_assignment_strategy=[STRATEGIES[given.assignment_strategy]],
        metadata_max_age_ms=1_000,
        fetch_max_wait_ms=100,
    )
    if given.topic.startswith("^"):
        client.subscribe(pattern=given.topic, listener=Reports())
    else:
        client.subscribe([given.topic], listener=Reports())
    emit("startup_complete")
    while not stop.wanted:
        consumed = Consumed()
        for messages in client.poll(POLL_MS).values():
            for message in messages:
                consumed.add(message.topic, message.partition, message.offset)
        if consumed.ranges:
            consumed.emit()
            if not given.enable_autocommit:
                commit(client, consumed.next_offsets())
    client.close()
    emit("shutdown_complete")


def commit(client: KafkaConsumer, offsets: dict[tuple[str, int], int]) -> None:
    try:
        client.commit({TopicPartition(*place): OffsetAndMetadata(offset, "", -1) for place, offset in offsets.items()})
        emit_committed(offsets)
    except KafkaError as error:
        emit_committed(offsets, error)


if __name__ == "__main__":
    main()
