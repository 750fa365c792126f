"""Batches of records on their way into a topic, and what the sender of each record holds in the meantime.

A `Batch` is filled by `accumulator.py` and sent by `sender.py`. A `Delivery` knows its batch and its place in it, so
that a record costs one small object and an acknowledgement one assignment for the whole batch. Waiting for one is for
the fronts, which bring their own kind of `Delivery`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from tidelog.client.core.record import RecordMetadata
from tidelog.client.errors import ClientError
from tidelog.model.ids import NO_OFFSET, NO_PRODUCER, NO_TIMESTAMP, Offset, ProducerEpoch, ProducerId, TopicPartition
from tidelog.wire.batch import NO_SEQUENCE, BatchInParts
from tidelog.wire.records import NO_PRODUCER_EPOCH

OnDelivery: TypeAlias = Callable[[RecordMetadata | None, ClientError | None], object]
# Told about exceptions that a callback of the caller raised: they must not hinder the others.
OnCallbackFailure: TypeAlias = Callable[[BaseException], None]


@dataclass(frozen=True, slots=True)
class EncodedRecords:
    """Records as they stand inside a batch, behind its header: offsets from 0, times from `base_timestamp_ms` on."""

    body: bytes | bytearray | memoryview
    count: int
    base_timestamp_ms: int
    max_timestamp_ms: int


class Acknowledged(NamedTuple):
    """The batch is in the log. Offset -1: the broker did not say where."""

    base_offset: Offset
    log_append_time_ms: int = NO_TIMESTAMP


class Batch:
    """Records of one partition that are sent together."""

    __slots__ = (
        "attempts",
        "base_sequence",
        "base_timestamp_ms",
        "callbacks",
        "count",
        "created_at",
        "encoded",
        "max_timestamp_ms",
        "on_settled",
        "order",
        "outcome",
        "partition",
        "parts",
        "producer_epoch",
        "producer_id",
        "retry_at",
        "size_bytes",
        "split_into",
        "transactional",
    )

    def __init__(self, partition: TopicPartition, order: int, base_timestamp_ms: int, created_at: float) -> None:
        self.partition = partition
        # Its place in the line of its partition.
        self.order = order
        self.base_timestamp_ms = base_timestamp_ms
        self.max_timestamp_ms = base_timestamp_ms
        self.created_at = created_at
        self.parts: list[bytes | bytearray | memoryview] = []
        self.count = 0
        self.size_bytes = 0
        self.callbacks: list[tuple[int, int, OnDelivery]] = []
        self.on_settled: list[Callable[[], None]] = []
        # Once set it stays: a retry sends the same bytes, by which a broker recognises them (KIP-98).
        self.encoded: BatchInParts | None = None
        self.producer_id: ProducerId = NO_PRODUCER
        self.producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH
        self.base_sequence = NO_SEQUENCE
        self.transactional = False
        self.attempts = 0
        self.retry_at = 0.0
        self.outcome: Acknowledged | ClientError | None = None
        self.split_into: tuple[Batch, Batch] | None = None

    @property
    def has_sequence(self) -> bool:
        return self.base_sequence != NO_SEQUENCE

    def settle(self, outcome: Acknowledged | ClientError) -> None:
        """Say how it ended, once."""
        assert self.outcome is None, "a batch ends once"
        self.outcome = outcome
        self.parts = []
        self.encoded = None

    def tell(self, on_failure: OnCallbackFailure) -> None:
        """Call everyone who waits for the end."""
        assert self.outcome is not None
        # Taken out one by one: another thread may be adding one, and then looks whether it is still there.
        self.callbacks.reverse()
        while self.callbacks:
            index, timestamp_ms, callback = self.callbacks.pop()
            try:
                if isinstance(self.outcome, ClientError):
                    callback(None, self.outcome)
                else:
                    callback(self.metadata(index, timestamp_ms), None)
            except BaseException as error:
                on_failure(error)
        for wake in self.on_settled:
            wake()
        self.on_settled.clear()

    def metadata(self, index: int, timestamp_ms: int) -> RecordMetadata:
        """Where the record at an index was written."""
        outcome = self.outcome
        assert isinstance(outcome, Acknowledged)
        base, append_time_ms = outcome
        offset = NO_OFFSET if base == NO_OFFSET else Offset(base + index)
        written_ms = timestamp_ms if append_time_ms == NO_TIMESTAMP else append_time_ms
        return RecordMetadata(self.partition.topic, self.partition.partition, offset, written_ms)


class Delivery:
    """A record that was handed to a producer: done when it is acknowledged or given up."""

    __slots__ = ("_batch", "_index", "_timestamp_ms")

    def __init__(self, batch: Batch, index: int, timestamp_ms: int) -> None:
        self._batch = batch
        self._index = index
        self._timestamp_ms = timestamp_ms

    def done(self) -> bool:
        """Whether it is known how the record ended."""
        return self._settling().outcome is not None

    def exception(self) -> ClientError | None:
        """Why the record was given up; None while it is not known, or when it is written."""
        outcome = self._settling().outcome
        return outcome if isinstance(outcome, ClientError) else None

    def add_done_callback(self, callback: OnDelivery) -> None:
        """Call `callback(metadata, error)` once, when it is known how the record ended; at once if it is known now."""
        batch = self._settling()
        entry = (self._index, self._timestamp_ms, callback)
        batch.callbacks.append(entry)
        if batch.outcome is not None:
            try:
                batch.callbacks.remove(entry)
            except ValueError:
                return  # It was called in the meantime.
            error = self.exception()
            callback(None if error else self._outcome(), error)

    def _settling(self) -> Batch:
        """The batch that the record is in now: one that was too large is sent as two."""
        batch = self._batch
        while batch.split_into is not None:
            first, second = batch.split_into
            if self._index < first.count:
                batch = first
            else:
                self._index -= first.count
                batch = second
            self._batch = batch
        return batch

    def _outcome(self) -> RecordMetadata:
        """Where the record is, or raise why it is not. Only when it is done."""
        batch = self._settling()
        if isinstance(batch.outcome, ClientError):
            raise batch.outcome
        return batch.metadata(self._index, self._timestamp_ms)

    def __repr__(self) -> str:
        batch = self._settling()
        state = "pending" if batch.outcome is None else "failed" if isinstance(batch.outcome, ClientError) else "done"
        return f"<{type(self).__name__} {batch.partition} {state}>"


def is_finished(batch: Batch) -> bool:
    """Whether the end of all records that were put into a batch is known."""
    if batch.split_into is not None:
        return all(map(is_finished, batch.split_into))
    return batch.outcome is not None


def lost_records(batch: Batch) -> int:
    """How many records of a batch are not known to be written."""
    if batch.split_into is not None:
        return sum(map(lost_records, batch.split_into))
    return 0 if isinstance(batch.outcome, Acknowledged) else batch.count
