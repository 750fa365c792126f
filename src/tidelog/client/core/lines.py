"""Records waiting to be sent, gathered into batches: one line of batches for each partition.

`send` of a front adds at the end; `sender.py` takes from the beginning and says how each batch ended. Knows the time
only as it is told. Not for two threads at once: the blocking front holds a lock.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Iterable, Sequence

from tidelog.client.core.pending import Batch, EncodedRecords
from tidelog.client.core.record import Headers
from tidelog.client.core.record_encoder import encode_record
from tidelog.model.ids import NO_PRODUCER, ProducerEpoch, ProducerId, TopicPartition
from tidelog.wire.records import NO_PRODUCER_EPOCH


class Line:
    """The batches of one partition, in the order in which their records came."""

    __slots__ = ("identity", "in_flight", "last", "needs_epoch", "next_sequence", "open", "partition", "waiting")

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.waiting: deque[Batch] = deque()
        # Sent and not answered yet, by order.
        self.in_flight: list[Batch] = []
        # The last of those waiting, while it takes records.
        self.open: Batch | None = None
        # The newest batch, sent or not.
        self.last: Batch | None = None
        # Under which identity the sequences are counted, and how far.
        self.identity: tuple[ProducerId, ProducerEpoch] = (NO_PRODUCER, NO_PRODUCER_EPOCH)
        self.next_sequence = 0
        # A batch with a sequence was given up: only a new epoch lets the partition begin again at sequence 0.
        self.needs_epoch = False

    @property
    def unresolved(self) -> bool:
        """Whether a broker may know of batches whose end we do not know."""
        return bool(self.in_flight) or bool(self.waiting and self.waiting[0].has_sequence)

    def give_back(self, batch: Batch) -> None:
        """A batch was not, or not for certain, written: it goes to its old place in the line."""
        self.in_flight.remove(batch)
        self.put(batch)

    def put(self, batch: Batch) -> None:
        """Take a batch to its place among those that wait."""
        position = 0
        for waiting in self.waiting:
            if waiting.order > batch.order:
                break
            position += 1
        self.waiting.insert(position, batch)

    def depart(self) -> Batch:
        """The first batch goes on its way."""
        batch = self.waiting.popleft()
        if batch is self.open:
            self.open = None
        insort(self.in_flight, batch, key=_order)
        return batch


def _order(batch: Batch) -> int:
    return batch.order


class Lines:
    """All batches that are not settled yet."""

    def __init__(self, batch_bytes_max: int) -> None:
        self.size_bytes = 0
        # How many batches are not settled.
        self.batches = 0
        # Lines with something in them, sent or not.
        self.active: dict[TopicPartition, Line] = {}
        self._lines: dict[TopicPartition, Line] = {}
        self._batch_bytes_max = batch_bytes_max

    def append(
        self,
        partition: TopicPartition,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        timestamp_ms: int,
        now: float,
    ) -> tuple[Batch, bool]:
        """Add a record to the partition's open batch or to a new one.

        Gives the batch, in which it is the last, and whether the sender has something new to look at: a batch that has
        just begun to linger, or the one before that is full.
        """
        line = self._lines.get(partition)
        batch = None if line is None else line.open
        if batch is not None:
            record = encode_record(batch.count, timestamp_ms - batch.base_timestamp_ms, key, value, headers)
            size_bytes = len(record)
            if batch.size_bytes + size_bytes <= self._batch_bytes_max:
                batch.parts.append(record)
                batch.count += 1
                batch.size_bytes += size_bytes
                self.size_bytes += size_bytes
                if timestamp_ms > batch.max_timestamp_ms:
                    batch.max_timestamp_ms = timestamp_ms
                return batch, False
        batch = self._begin(partition, timestamp_ms, now)
        record = encode_record(0, 0, key, value, headers)
        batch.parts.append(record)
        batch.count = 1
        batch.size_bytes = len(record)
        self.size_bytes += batch.size_bytes
        return batch, True

    def append_encoded(self, partition: TopicPartition, records: EncodedRecords, now: float) -> Batch:
        """Add records that somebody else encoded, as a batch of their own."""
        batch = self._begin(partition, records.base_timestamp_ms, now)
        self._lines[partition].open = None
        batch.parts.append(records.body)
        batch.count = records.count
        batch.max_timestamp_ms = records.max_timestamp_ms
        batch.size_bytes = len(records.body)
        self.size_bytes += batch.size_bytes
        return batch

    def line(self, partition: TopicPartition) -> Line:
        return self._lines[partition]

    def loads(self, topic: str, partitions: int) -> Sequence[int]:
        """How many batches wait for each partition of a topic: a sticky partitioner avoids the slow ones (KIP-794)."""
        active = self.active
        found = []
        for index in range(partitions):
            line = active.get((topic, index))  # type: ignore[call-overload]
            found.append(0 if line is None else len(line.waiting))
        return found

    def close_open(self) -> None:
        """Let no batch take more records: what comes now goes behind what is flushed."""
        for line in self.active.values():
            line.open = None

    def settled(self, batch: Batch) -> None:
        """A batch was acknowledged or given up: forget it."""
        line = self._lines[batch.partition]
        if batch in line.in_flight:
            line.in_flight.remove(batch)
        else:
            line.waiting.remove(batch)
            if batch is line.open:
                line.open = None
        self._forget(line, batch)

    def split(self, batch: Batch, first: Batch, second: Batch) -> None:
        """Put two halves into the place of a batch that was too large."""
        line = self._lines[batch.partition]
        line.in_flight.remove(batch)
        line.waiting.appendleft(second)
        line.waiting.appendleft(first)
        self.batches += 1
        self.size_bytes += first.size_bytes + second.size_bytes - batch.size_bytes

    def droppable(self) -> list[Batch]:
        """The batches of which no broker has heard, the oldest first."""
        found = [batch for line in self.active.values() for batch in line.waiting if batch.attempts == 0]
        return sorted(found, key=lambda batch: batch.created_at)

    def all(self) -> Iterable[Batch]:
        """Every batch that is not settled."""
        return [batch for line in self.active.values() for batch in (*line.in_flight, *line.waiting)]

    def _begin(self, partition: TopicPartition, timestamp_ms: int, now: float) -> Batch:
        line = self._lines.get(partition)
        if line is None:
            line = self._lines[partition] = Line(partition)
        self.active[partition] = line
        last = line.last
        # Counted in records, so that the half of a batch that is split has a place, too.
        order = 0 if last is None else last.order + last.count
        batch = line.open = line.last = Batch(partition, order, timestamp_ms, now)
        line.waiting.append(batch)
        self.batches += 1
        return batch

    def _forget(self, line: Line, batch: Batch) -> None:
        self.size_bytes -= batch.size_bytes
        self.batches -= 1
        if not line.waiting and not line.in_flight:
            self.active.pop(line.partition, None)
