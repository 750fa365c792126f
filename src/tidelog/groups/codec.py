"""A record of `__consumer_offsets` <-> key and value bytes, in Apache Kafka's format, so that its tools read our topic.

Both begin with a 16-bit number: in the key it is the kind of record, in the value the version of the value.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import Final

from tidelog.groups.records import NO_PRODUCER_EPOCH, GroupRecord
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import NO_PRODUCER, NO_TIMESTAMP, ProducerEpoch, ProducerId
from tidelog.wire.compiler import Output, decode, writer
from tidelog.wire.messages import group_records as messages
from tidelog.wire.schema import Message, VersionRange

_PREFIX: Final = Struct(">h")
# All keys have one version.
KEY_VERSION: Final = 0
REMEMBERED_KEYS_MAX: Final = 10_000
# The only version that can say when an offset expires.
OFFSET_WITH_EXPIRY_VERSION: Final = 1

# Kind of record -> key, value, and the version in which Kafka 4.2 writes the value.
KINDS: Final[dict[int, tuple[type[Message], type[Message], int]]] = {
    0: (messages.LegacyOffsetCommitKey, messages.OffsetCommitValue, 0),
    1: (messages.OffsetCommitKey, messages.OffsetCommitValue, 4),
    2: (messages.GroupMetadataKey, messages.GroupMetadataValue, 3),
    3: (messages.ConsumerGroupMetadataKey, messages.ConsumerGroupMetadataValue, 0),
    4: (messages.ConsumerGroupPartitionMetadataKey, messages.ConsumerGroupPartitionMetadataValue, 0),
    5: (messages.ConsumerGroupMemberMetadataKey, messages.ConsumerGroupMemberMetadataValue, 0),
    6: (messages.ConsumerGroupTargetAssignmentMetadataKey, messages.ConsumerGroupTargetAssignmentMetadataValue, 0),
    7: (messages.ConsumerGroupTargetAssignmentMemberKey, messages.ConsumerGroupTargetAssignmentMemberValue, 0),
    8: (messages.ConsumerGroupCurrentMemberAssignmentKey, messages.ConsumerGroupCurrentMemberAssignmentValue, 0),
    16: (messages.ConsumerGroupRegularExpressionKey, messages.ConsumerGroupRegularExpressionValue, 0),
}

# We never write kind 0, and so the version that kind 1 has counts for the value that both share.
_VALUE_VERSIONS: Final = {value: version for _, value, version in KINDS.values()}


def encode_key(record: GroupRecord) -> bytes:
    """The key bytes of a record."""
    key = record.key
    if isinstance(key, messages.OffsetCommitKey):
        return _offset_key(key.group, key.topic, key.partition)
    return _encode_key(key)


# A consumer commits to the same partitions again and again.
@lru_cache(maxsize=REMEMBERED_KEYS_MAX)
def _offset_key(group: str, topic: str, partition: int) -> bytes:
    return _encode_key(messages.OffsetCommitKey(group, topic, partition))


def _encode_key(key: Message) -> bytes:
    out = Output(_PREFIX.pack(key.API_KEY))
    writer(type(key), KEY_VERSION)(key, out)
    return bytes(out)


def encode_value(record: GroupRecord) -> bytes | None:
    """The value bytes of a record; None for a tombstone."""
    value = record.value
    if value is None:
        return None
    version = _VALUE_VERSIONS[type(value)]
    if isinstance(value, messages.OffsetCommitValue) and value.expire_timestamp != NO_TIMESTAMP:
        version = OFFSET_WITH_EXPIRY_VERSION
    out = Output(_PREFIX.pack(version))
    writer(type(value), version)(value, out)
    return bytes(out)


def decode_record(
    key: bytes | None,
    value: bytes | None,
    producer_id: ProducerId = NO_PRODUCER,
    producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH,
) -> GroupRecord | None:
    """The record in key and value bytes; None for a kind that only a newer or another broker writes.

    CORRUPT_MESSAGE when the bytes are not what they say.
    """
    if key is None or len(key) < _PREFIX.size:
        raise _corrupt("A record of a group has no key that says its kind.")
    (kind,) = _PREFIX.unpack_from(key)
    if kind not in KINDS:
        return None
    key_type, value_type, _ = KINDS[kind]
    decoded_key = _decode(key_type, KEY_VERSION, key)
    if value is None:
        return GroupRecord(decoded_key, None, producer_id, producer_epoch)
    if len(value) < _PREFIX.size:
        raise _corrupt(f"The value of a {key_type.__name__} does not say its version.")
    (version,) = _PREFIX.unpack_from(value)
    if version not in VersionRange.parse(value_type.VERSIONS):
        raise _corrupt(f"{value_type.__name__} version {version} is unknown.")
    return GroupRecord(decoded_key, _decode(value_type, version, value), producer_id, producer_epoch)


def _decode(message: type[Message], version: int, buffer: bytes) -> Message:
    try:
        return decode(message, version, memoryview(buffer)[_PREFIX.size :])
    except ProtocolError as error:
        raise _corrupt(f"{message.__name__} cannot be read: {error}") from error


def _corrupt(message: str) -> ProtocolError:
    return ProtocolError(ErrorCode.CORRUPT_MESSAGE, message)
