"""What members that speak the classic protocol say and hear in bytes: subscriptions and assignments by topic name."""

from __future__ import annotations

from struct import Struct
from typing import Final

from tidelog.groups.consumer.assignment import NOTHING, Assignment
from tidelog.metadata.image import ClusterImage
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import TopicId
from tidelog.wire.compiler import decode, encode
from tidelog.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)

_VERSION: Final = Struct(">h")
NEWEST_VERSION: Final = 3


class Malformed(Exception):
    """Bytes that are no subscription or assignment."""


def subscription_of(metadata: bytes) -> ConsumerProtocolSubscription:
    """The subscription in a member's metadata; a newer version begins like the newest that we know."""
    try:
        return decode(ConsumerProtocolSubscription, version_of(metadata), memoryview(metadata)[_VERSION.size :])
    except ProtocolError as error:
        raise Malformed(str(error)) from error


def version_of(metadata: bytes) -> int:
    if len(metadata) < _VERSION.size:
        raise Malformed("it does not say its version")
    (version,) = _VERSION.unpack_from(metadata)
    if version < 0:
        raise Malformed(f"its version is {version}")
    return min(int(version), NEWEST_VERSION)


def partitions_of(listed: list[TopicPartition], image: ClusterImage) -> Assignment:
    """Partitions by the name of their topic; those of topics that do not exist are left out."""
    found: dict[TopicId, frozenset[int]] = {}
    for each in listed:
        topic = image.topic(each.topic)
        if topic is not None and each.partitions:
            found[topic.topic_id] = found.get(topic.topic_id, frozenset()).union(each.partitions)
    return found


def read_assignment(assignment: bytes, image: ClusterImage) -> Assignment:
    """What a leader gave a member. UNSUPPORTED_VERSION when a custom assignor put data of its own into it."""
    if not assignment:
        return NOTHING
    try:
        version = version_of(assignment)
        read = decode(ConsumerProtocolAssignment, version, memoryview(assignment)[_VERSION.size :])
    except ProtocolError as error:
        raise Malformed(str(error)) from error
    if read.user_data:
        raise ProtocolError(ErrorCode.UNSUPPORTED_VERSION, "userData from a custom assignor would be lost")
    return partitions_of(read.assigned_partitions, image)


def write_assignment(assignment: Assignment, image: ClusterImage, version: int) -> bytes:
    """What a member is told, in the version of its own subscription."""
    named = sorted(
        (topic.name, sorted(partitions))
        for topic_id, partitions in assignment.items()
        if (topic := image.topic_by_id(topic_id)) is not None
    )
    value = ConsumerProtocolAssignment([TopicPartition(name, partitions) for name, partitions in named])
    return _VERSION.pack(version) + encode(value, version)
