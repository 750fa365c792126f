"""Batches of `__transaction_state` that differ from one written before only in their numbers.

A producer in a loop has its coordinator write two records for each transaction, of which only times, epoch and state
are new. The host of a shard keeps a form for each transactional id and has it filled in; what does not fit is encoded
by `transactions/codec.py`, with which a test compares this.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from tidelog.transactions.codec import TIMES, VALUE, VALUE_VERSION, encode_key, encode_tags, encode_value
from tidelog.transactions.records import TransactionRecord
from tidelog.transactions.states import NUMBERS
from tidelog.transactions.transaction import Transaction
from tidelog.wire.batch import BASE_TIMESTAMP_POSITION, CHECKED_POSITION, CRC_POSITION
from tidelog.wire.crc import crc32c
from tidelog.wire.small_batch import build_one_record_batch

# Two timestamps of a batch stand side by side: that of its first record, and the largest.
_pack_timestamps: Final = Struct(">qq").pack_into
_pack_crc: Final = Struct(">I").pack_into
_pack_value: Final = VALUE.pack_into
_pack_times: Final = TIMES.pack_into
# Behind the value of a record: that it has no headers.
_AFTER_VALUE_BYTES: Final = 1


class BatchForm:
    """The batch of one record, as the newest transaction of its id has it."""

    __slots__ = ("_batch", "_like", "_times_position", "_value_position")

    def __init__(self, record: TransactionRecord, transaction: Transaction) -> None:
        """`transaction`, which is the record's, has partitions: where there are none, a record says two things."""
        assert transaction.partitions
        value = encode_value(record)
        assert value is not None
        batch = build_one_record_batch(encode_key(record), value, transaction.updated_ms)
        self._batch = bytes(batch)
        self._like = transaction
        self._value_position = len(batch) - _AFTER_VALUE_BYTES - len(value)
        # Between partitions and tags.
        self._times_position = len(batch) - _AFTER_VALUE_BYTES - len(encode_tags(transaction)) - TIMES.size

    def first(self) -> bytearray:
        """The batch that it was made from."""
        return bytearray(self._batch)

    def batch(self, transaction: Transaction) -> bytearray | None:
        """The batch with another transaction of the id in it, written when it was updated; None for another form."""
        like = self._like
        if (
            transaction.partitions != like.partitions
            or transaction.client_version != like.client_version
            or transaction.previous_producer_id != like.previous_producer_id
            or transaction.next_producer_id != like.next_producer_id
            or transaction.next_producer_epoch != like.next_producer_epoch
        ):
            return None
        batch = bytearray(self._batch)
        updated_ms = transaction.updated_ms
        _pack_timestamps(batch, BASE_TIMESTAMP_POSITION, updated_ms, updated_ms)
        _pack_value(
            batch,
            self._value_position,
            VALUE_VERSION,
            transaction.producer_id,
            transaction.producer_epoch,
            transaction.timeout_ms,
            NUMBERS[transaction.state],
        )
        _pack_times(batch, self._times_position, updated_ms, transaction.start_ms)
        _pack_crc(batch, CRC_POSITION, crc32c(memoryview(batch)[CHECKED_POSITION:]))
        return batch
