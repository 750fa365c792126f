"""What a coordinator wrote about one group, read back from `__consumer_offsets` as any consumer may.

Holds every generation with its members' partitions and every commit, in the order of the log; tests check them. Works
with any server that keeps Apache Kafka's format.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from harness.group_members import Place
from tidelog.groups.codec import decode_record
from tidelog.wire.compiler import decode
from tidelog.wire.messages.consumer_protocol import ConsumerProtocolAssignment
from tidelog.wire.messages.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)

OFFSETS_TOPIC: Final = "__consumer_offsets"
SECONDS_MAX: Final = 30


@dataclass(frozen=True, slots=True)
class Generation:
    """What the members of one generation were given."""

    number: int
    shares: dict[str, frozenset[Place]]

    def owners(self) -> Counter[Place]:
        return Counter(place for share in self.shares.values() for place in share)


@dataclass(slots=True)
class GroupHistory:
    """All that was written, oldest first."""

    generations: list[Generation] = field(default_factory=list)
    commits: dict[Place, list[int]] = field(default_factory=dict)


def read_history(bootstrap_servers: str, group: str) -> GroupHistory:
    history = GroupHistory()
    client = Consumer(
        {"bootstrap.servers": bootstrap_servers, "group.id": "reads-history", "enable.auto.commit": False}
    )
    try:
        partitions = client.list_topics(OFFSETS_TOPIC, SECONDS_MAX).topics[OFFSETS_TOPIC].partitions
        for partition in sorted(partitions):
            _read_partition(client, partition, group, history)
    finally:
        client.close()
    return history


def _read_partition(client: Consumer, partition: int, group: str, history: GroupHistory) -> None:
    place = TopicPartition(OFFSETS_TOPIC, partition, OFFSET_BEGINNING)
    low, high = client.get_watermark_offsets(place, SECONDS_MAX)
    if low == high:
        return
    client.assign([place])
    offset = low
    while offset < high:
        messages = client.consume(1000, timeout=SECONDS_MAX)
        assert messages, f"{OFFSETS_TOPIC}-{partition}: nothing came after offset {offset}"
        for message in messages:
            assert message.error() is None, message.error()
            offset = message.offset() + 1
            _note(message.key(), message.value(), group, history)


def _note(key: bytes, value: bytes | None, group: str, history: GroupHistory) -> None:
    record = decode_record(key, value)
    if record is None or record.value is None:
        return
    if isinstance(record.key, OffsetCommitKey) and record.key.group == group:
        assert isinstance(record.value, OffsetCommitValue)
        commits = history.commits.setdefault(Place(record.key.topic, record.key.partition), [])
        commits.append(record.value.offset)
    elif isinstance(record.key, GroupMetadataKey) and record.key.group == group:
        assert isinstance(record.value, GroupMetadataValue)
        shares = {member.member_id: _share(member.assignment) for member in record.value.members}
        history.generations.append(Generation(record.value.generation, shares))


def _share(assignment: bytes | memoryview | None) -> frozenset[Place]:
    """The assignment of a consumer: a version, then the message, which is the same in all of them."""
    if not assignment:
        return frozenset()
    found = decode(ConsumerProtocolAssignment, 0, memoryview(assignment)[2:])
    return frozenset(Place(topic.topic, index) for topic in found.assigned_partitions for index in topic.partitions)
