"""What members of a classic group tell each other through the coordinator: what they want, have, and shall have.

Encoded as Java's clients do, so that members of several clients go together. Used by `classic_member.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Final

from tidelog.client.core.offsets import by_topic
from tidelog.model.ids import PartitionIndex, TopicName, TopicPartition
from tidelog.wire.compiler import decode, encode
from tidelog.wire.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from tidelog.wire.messages.consumer_protocol import TopicPartition as TopicRow
from tidelog.wire.primitives import MalformedMessage

SUBSCRIPTION_VERSION: Final = 3
ASSIGNMENT_VERSION: Final = 0
NO_GENERATION: Final = -1
# Both messages have a 16-bit version before them.
_PREFIX: Final = Struct(">h")


@dataclass(frozen=True, slots=True)
class MemberSubscription:
    """What one member wants to read, and what it has."""

    topics: tuple[TopicName, ...]
    owned: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION
    instance_id: str | None = None
    rack: str | None = None
    user_data: bytes | None = None


def encode_subscription(member: MemberSubscription) -> bytes:
    message = ConsumerProtocolSubscription(
        sorted(member.topics), member.user_data, _rows(member.owned), member.generation, member.rack
    )
    return _PREFIX.pack(SUBSCRIPTION_VERSION) + encode(message, SUBSCRIPTION_VERSION)


def decode_subscription(data: bytes | memoryview, instance_id: str | None = None) -> MemberSubscription:
    """Of any version: what a newer one adds is left out, what an older one lacks is the default."""
    view = memoryview(data)
    if len(view) < _PREFIX.size:
        raise MalformedMessage("a subscription is cut short")
    version = min(int(_PREFIX.unpack_from(view)[0]), SUBSCRIPTION_VERSION)
    read = decode(ConsumerProtocolSubscription, version, view[_PREFIX.size :])
    return MemberSubscription(
        tuple(TopicName(topic) for topic in read.topics),
        tuple(_places(read.owned_partitions)),
        read.generation_id,
        instance_id,
        read.rack_id,
        None if read.user_data is None else bytes(read.user_data),
    )


def encode_assignment(partitions: Iterable[TopicPartition], user_data: bytes | None = None) -> bytes:
    message = ConsumerProtocolAssignment(_rows(partitions), user_data)
    return _PREFIX.pack(ASSIGNMENT_VERSION) + encode(message, ASSIGNMENT_VERSION)


def decode_assignment(data: bytes | memoryview) -> list[TopicPartition]:
    """The partitions of a member; none when the leader said nothing."""
    if not data:
        return []
    read = decode(ConsumerProtocolAssignment, ASSIGNMENT_VERSION, memoryview(data)[_PREFIX.size :])
    return _places(read.assigned_partitions)


def all_partitions(counts: Mapping[TopicName, int]) -> list[TopicPartition]:
    """Every partition of some topics, in order."""
    return [TopicPartition(topic, PartitionIndex(index)) for topic in sorted(counts) for index in range(counts[topic])]


def _rows(partitions: Iterable[TopicPartition]) -> list[TopicRow]:
    named = by_topic(dict.fromkeys(partitions))
    return [TopicRow(name, sorted(int(index) for index, _ in rows)) for name, rows in named.items()]


def _places(rows: Sequence[TopicRow]) -> list[TopicPartition]:
    return [TopicPartition(TopicName(row.topic), PartitionIndex(index)) for row in rows for index in row.partitions]
