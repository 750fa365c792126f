"""A member of a group by aiokafka. Events and options: see reporting.py."""

from __future__ import annotations

import asyncio
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import KafkaError
from reporting import POLL_SECONDS, Consumed, Stop, emit, emit_committed, options, places

STRATEGIES = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}
RECORDS_PER_POLL = 500


class Reports(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, client: AIOKafkaConsumer) -> None:
        self._client = client

    async def on_partitions_assigned(self, assigned: Any) -> None:
        member_id = self._client._coordinator.member_id
        emit("partitions_assigned", partitions=places(assigned), member=member_id)

    async def on_partitions_revoked(self, revoked: Any) -> None:
        emit("partitions_revoked", partitions=places(revoked))


async def main() -> None:
    given = options()
    stop = Stop()
    client = AIOKafkaConsumer(
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
        client.subscribe(pattern=given.topic, listener=Reports(client))
    else:
        client.subscribe([given.topic], listener=Reports(client))
    await client.start()
    emit("startup_complete")
    while not stop.wanted:
        consumed = Consumed()
        many = await client.getmany(timeout_ms=int(POLL_SECONDS * 1000), max_records=RECORDS_PER_POLL)
        for messages in many.values():
            for message in messages:
                consumed.add(message.topic, message.partition, message.offset)
        if consumed.ranges:
            consumed.emit()
            if not given.enable_autocommit:
                await commit(client, consumed.next_offsets())
    await client.stop()
    emit("shutdown_complete")


async def commit(client: AIOKafkaConsumer, offsets: dict[tuple[str, int], int]) -> None:
    try:
        await client.commit({TopicPartition(*place): offset for place, offset in offsets.items()})
        emit_committed(offsets)
    except KafkaError as error:
        emit_committed(offsets, error)


if __name__ == "__main__":
    asyncio.run(main())
