"""Records of `__transaction_state` as bytes, in Apache Kafka's format: key and value each begin with their version."""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import Final, TypeVar

from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import NO_PRODUCER, PartitionIndex, ProducerEpoch, ProducerId, TopicName, TopicPartition
from tidelog.transactions.records import TransactionRecord
from tidelog.transactions.states import BY_NUMBER, NUMBERS, State
from tidelog.transactions.transaction import NO_PRODUCER_EPOCH, Transaction
from tidelog.wire.compiler import decode
from tidelog.wire.messages.transaction_records import TransactionLogKey, TransactionLogValue
from tidelog.wire.primitives import uvarint
from tidelog.wire.schema import Message, VersionRange

MessageT = TypeVar("MessageT", bound=Message)

_PREFIX: Final = Struct(">h")
# Version and length of the id; version, producer id and epoch, timeout, state; last update and start.
_KEY: Final = Struct(">hh")
VALUE: Final = Struct(">hqhib")
TIMES: Final = Struct(">qq")
# Tag, length and content.
_TAGGED_ID: Final = Struct(">BBq")
_TAGGED_NUMBER: Final = Struct(">BBh")
NULL: Final = b"\x00"
NO_PARTITIONS: Final = b"\x01"
PARTITIONS_CACHED_MAX: Final = 16
KEY_VERSION: Final = 0
# The first with the pairs of KIP-890 and KIP-939 in tagged fields.
VALUE_VERSION: Final = 1


def encode_key(record: TransactionRecord) -> bytes:
    """The key bytes of a record."""
    encoded = record.transactional_id.encode()
    return _KEY.pack(KEY_VERSION, len(encoded)) + encoded


def encode_value(record: TransactionRecord) -> bytes | None:
    """The value bytes of a record; None for a tombstone.

    By hand and not by the compiled codec, with which a test compares it: every transaction writes three of them.
    """
    transaction = record.transaction
    if transaction is None:
        return None
    tags = encode_tags(transaction)
    partitions = transaction.partitions
    if len(partitions) > PARTITIONS_CACHED_MAX:
        encoded = _encode_partitions(partitions)
    elif partitions:
        encoded = _encode_few_partitions(partitions)
    else:
        # Null for a transaction that has not begun, as Apache Kafka writes it.
        encoded = NULL if transaction.state is State.EMPTY else NO_PARTITIONS
    return b"".join(
        (
            VALUE.pack(
                VALUE_VERSION,
                transaction.producer_id,
                transaction.producer_epoch,
                transaction.timeout_ms,
                NUMBERS[transaction.state],
            ),
            encoded,
            TIMES.pack(transaction.updated_ms, transaction.start_ms),
            tags,
        )
    )


def encode_tags(transaction: Transaction) -> bytes:
    """The tagged fields that are not what they are by default."""
    tags = []
    if transaction.previous_producer_id != NO_PRODUCER:
        tags.append(_TAGGED_ID.pack(0, 8, transaction.previous_producer_id))
    if transaction.next_producer_id != NO_PRODUCER:
        tags.append(_TAGGED_ID.pack(1, 8, transaction.next_producer_id))
    if transaction.client_version:
        tags.append(_TAGGED_NUMBER.pack(2, 2, transaction.client_version))
    if transaction.next_producer_epoch != NO_PRODUCER_EPOCH:
        tags.append(_TAGGED_NUMBER.pack(3, 2, transaction.next_producer_epoch))
    return b"".join((uvarint(len(tags)), *tags))


def _encode_partitions(partitions: frozenset[TopicPartition]) -> bytes:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    encoded = [uvarint(len(topics) + 1)]
    for name, indexes in topics.items():
        topic_bytes = name.encode()
        encoded += (uvarint(len(topic_bytes) + 1), topic_bytes, uvarint(len(indexes) + 1))
        encoded += (Struct(f">{len(indexes)}i").pack(*indexes), b"\0")
    return b"".join(encoded)


# A producer writes to the same few partitions again and again.
_encode_few_partitions = lru_cache(maxsize=1024)(_encode_partitions)


def decode_record(key: bytes | None, value: bytes | None) -> TransactionRecord | None:
    """The record in key and value bytes; None for a kind that only a newer broker writes.

    CORRUPT_MESSAGE when the bytes are not what they say.
    """
    if key is None or len(key) < _PREFIX.size:
        raise _corrupt("A record of a transaction has no key that says its version.")
    if _PREFIX.unpack_from(key)[0] != KEY_VERSION:
        return None
    transactional_id = _decode(TransactionLogKey, KEY_VERSION, key).transactional_id
    if value is None:
        return TransactionRecord(transactional_id, None)
    if len(value) < _PREFIX.size:
        raise _corrupt(f"The record of {transactional_id} does not say its version.")
    (version,) = _PREFIX.unpack_from(value)
    if version not in VersionRange.parse(TransactionLogValue.VERSIONS):
        raise _corrupt(f"Version {version} of the record of {transactional_id} is unknown.")
    found = _decode(TransactionLogValue, version, value)
    state = BY_NUMBER.get(found.transaction_status)
    if state is None:
        raise _corrupt(f"The state {found.transaction_status} of {transactional_id} is unknown.")
    return TransactionRecord(
        transactional_id,
        Transaction(
            ProducerId(found.producer_id),
            ProducerEpoch(found.producer_epoch),
            found.transaction_timeout_ms,
            state,
            frozenset(
                TopicPartition(TopicName(topic.topic), PartitionIndex(index))
                for topic in found.transaction_partitions or ()
                for index in topic.partition_ids
            ),
            found.transaction_start_timestamp_ms,
            found.transaction_last_update_timestamp_ms,
            ProducerId(found.previous_producer_id),
            ProducerId(found.next_producer_id),
            ProducerEpoch(found.next_producer_epoch),
            found.client_transaction_version,
        ),
    )


def _decode(message: type[MessageT], version: int, buffer: bytes) -> MessageT:
    try:
        return decode(message, version, memoryview(buffer)[_PREFIX.size :])
    except ProtocolError as error:
        raise _corrupt(f"{message.__name__} cannot be read: {error}") from error


def _corrupt(message: str) -> ProtocolError:
    return ProtocolError(ErrorCode.CORRUPT_MESSAGE, message)
