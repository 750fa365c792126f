"""Records of `__transaction_state` as bytes, in Apache Kafka's format: key and value each begin with their version."""

from __future__ import annotations

from struct import Struct
from typing import Final, TypeVar

from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import PartitionIndex, ProducerEpoch, ProducerId, TopicName, TopicPartition
from tidelog.transactions.records import TransactionRecord
from tidelog.transactions.states import BY_NUMBER, State
from tidelog.transactions.transaction import Transaction
from tidelog.wire.compiler import Output, decode, writer
from tidelog.wire.messages.transaction_records import PartitionsSchema, TransactionLogKey, TransactionLogValue
from tidelog.wire.schema import Message, VersionRange

MessageT = TypeVar("MessageT", bound=Message)

_PREFIX: Final = Struct(">h")
KEY_VERSION: Final = 0
# The first with the pairs of KIP-890 and KIP-939 in tagged fields.
VALUE_VERSION: Final = 1


def encode_key(record: TransactionRecord) -> bytes:
    """The key bytes of a record."""
    return _encode(TransactionLogKey(record.transactional_id), KEY_VERSION)


def encode_value(record: TransactionRecord) -> bytes | None:
    """The value bytes of a record; None for a tombstone."""
    transaction = record.transaction
    if transaction is None:
        return None
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(transaction.partitions):
        topics.setdefault(topic, []).append(partition)
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.producer_epoch,
        next_producer_epoch=transaction.next_producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state.number,
        # Null for a transaction that has not begun, as Apache Kafka writes it.
        transaction_partitions=None
        if transaction.state is State.EMPTY
        else [PartitionsSchema(topic, partitions) for topic, partitions in topics.items()],
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
        client_transaction_version=transaction.client_version,
    )
    return _encode(value, VALUE_VERSION)


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


def _encode(message: TransactionLogKey | TransactionLogValue, version: int) -> bytes:
    out = Output(_PREFIX.pack(version))
    writer(type(message), version)(message, out)
    return bytes(out)


def _decode(message: type[MessageT], version: int, buffer: bytes) -> MessageT:
    try:
        return decode(message, version, memoryview(buffer)[_PREFIX.size :])
    except ProtocolError as error:
        raise _corrupt(f"{message.__name__} cannot be read: {error}") from error


def _corrupt(message: str) -> ProtocolError:
    return ProtocolError(ErrorCode.CORRUPT_MESSAGE, message)
