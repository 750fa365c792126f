"""Records waiting to be sent, gathered into batches: one line of batches for each partition.

Called by the producer's front, which asks what is ready, sends it and says how it ended. At most one batch of a
partition is on its way at a time, so that retries never change the order. Knows the time only as it is told.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tidelog.client.core.record import Headers, RecordMetadata
from tidelog.client.errors import ClientError
from tidelog.model.ids import NO_OFFSET, Offset, TopicPartition
from tidelog.wire.records import Record

# What a record takes in a batch beside key, value and headers, at most: eight varints and the attributes.
RECORD_OVERHEAD_BYTES = 32
HEADER_OVERHEAD_BYTES = 10

OnDelivery = Callable[[RecordMetadata | None, ClientError | None], None]


@dataclass(slots=True)
class Batch:
    """Records of one partition that are sent together, and who is told how that ended."""

    partition: TopicPartition
    created_at: float
    records: list[Record] = field(default_factory=list)
    callbacks: list[OnDelivery | None] = field(default_factory=list)
    size_bytes: int = 0
    # The bytes as they were first sent. A retry sends the same ones, so that a broker recognises them (KIP-98).
    encoded: bytes | None = None

    def succeed(self, base_offset: Offset, log_append_time_ms: int) -> None:
        """Tell every record's sender where it is."""
        topic, partition = self.partition
        for index, (record, callback) in enumerate(zip(self.records, self.callbacks, strict=True)):
            if callback is not None:
                offset = NO_OFFSET if base_offset == NO_OFFSET else Offset(base_offset + index)
                timestamp = record.timestamp if log_append_time_ms < 0 else log_append_time_ms
                callback(RecordMetadata(topic, partition, offset, timestamp), None)

    def fail(self, error: ClientError) -> None:
        """Tell every record's sender that it was not written, or that nobody knows."""
        for callback in self.callbacks:
            if callback is not None:
                callback(None, error)


class Accumulator:
    """All batches that are not acknowledged yet."""

    def __init__(self, batch_bytes_max: int, linger_s: float) -> None:
        self.size_bytes = 0
        self._batch_bytes_max = batch_bytes_max
        self._linger_s = linger_s
        self._waiting: dict[TopicPartition, deque[Batch]] = {}
        self._on_their_way: set[TopicPartition] = set()

    def __bool__(self) -> bool:
        """Whether anything is not acknowledged yet."""
        return bool(self._waiting)

    def append(
        self, partition: TopicPartition, record: Record, size_bytes: int, callback: OnDelivery | None, now: float
    ) -> bool:
        """Add a record to the partition's last batch or to a new one; True when the first batch is full."""
        line = self._waiting.get(partition)
        if line is None:
            line = self._waiting[partition] = deque()
        batch = line[-1] if line else None
        if batch is None or batch.encoded is not None or batch.size_bytes + size_bytes > self._batch_bytes_max:
            batch = Batch(partition, now)
            line.append(batch)
        batch.records.append(record)
        batch.callbacks.append(callback)
        batch.size_bytes += size_bytes
        self.size_bytes += size_bytes
        return len(line) > 1 or batch.size_bytes >= self._batch_bytes_max

    def ready(self, now: float, flushing: bool = False) -> Iterator[Batch]:
        """The first batch of each partition that is full, has lingered long enough, or is flushed."""
        for partition, line in self._waiting.items():
            if partition in self._on_their_way:
                continue
            first = line[0]
            full = len(line) > 1 or first.size_bytes >= self._batch_bytes_max
            if flushing or full or first.encoded is not None or now - first.created_at >= self._linger_s:
                yield first

    def next_ready_at(self) -> float | None:
        """When a batch that nobody flushes will have lingered long enough."""
        return min(
            (
                line[0].created_at + self._linger_s
                for partition, line in self._waiting.items()
                if partition not in self._on_their_way
            ),
            default=None,
        )

    def sent(self, batch: Batch) -> None:
        """The batch is on its way: its partition waits for the end."""
        assert batch.encoded is not None
        self._on_their_way.add(batch.partition)

    def returned(self, batch: Batch) -> None:
        """The batch did not arrive, or not for certain: it is first in line again."""
        self._on_their_way.discard(batch.partition)

    def ended(self, batch: Batch) -> None:
        """The batch was acknowledged or given up."""
        self._on_their_way.discard(batch.partition)
        line = self._waiting[batch.partition]
        assert line[0] is batch, "batches of a partition end in order"
        line.popleft()
        if not line:
            del self._waiting[batch.partition]
        self.size_bytes -= batch.size_bytes


def size_of(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """What a record takes in a batch before compression, never too little."""
    size = RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
    for name, content in headers:
        size += HEADER_OVERHEAD_BYTES + len(name.encode()) + len(content or b"")
    return size
