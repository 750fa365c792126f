"""What a partition remembers of its idempotent producers: epoch, the last five batches, an open transaction.

The broker asks `check` before it stages a batch, the log says `staged` when it has; batches of one loop turn are
checked against each other. What was staged and could not be written is taken back. It never touches a file:
`log/producer_snapshots.py` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from tidelog.log.verifications import Verifications
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import NO_OFFSET, NO_TIMESTAMP, Offset, ProducerEpoch, ProducerId
from tidelog.wire.batch import NO_SEQUENCE, SEQUENCE_MASK, TRANSACTIONAL_FLAG, BatchHeader
from tidelog.wire.batch_run import BatchRun
from tidelog.wire.control import EndTransaction

# A producer has at most five requests in flight, so a retry repeats one of the last five batches.
REMEMBERED_BATCHES: Final = 5
LOST_PRODUCERS_MAX: Final = 1_000


class ProducedBatch(msgspec.Struct, frozen=True, gc=False):
    """What is needed to recognise a batch when it comes again."""

    last_sequence: int
    last_offset: Offset
    offset_delta: int
    timestamp: int

    @property
    def base_offset(self) -> Offset:
        return Offset(self.last_offset - self.offset_delta)

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & SEQUENCE_MASK


class Duplicate(NamedTuple):
    """A batch that is in the log already: answered as if it had been appended now."""

    base_offset: Offset
    last_offset: Offset
    timestamp: int


def _has_same_batches(self: KeptRun | KeptRuns, other: object) -> bool:
    return self.batches() == (other.batches() if isinstance(other, KeptRun | KeptRuns) else other)


class KeptRun(msgspec.Struct, frozen=True, gc=False, eq=False):
    """The newest batches of a producer as they came, in one run: most are followed by the next before anybody asks for
    one of them. Not the run itself, which has the memory of a turn."""

    record_counts: Sequence[int]
    max_timestamps: Sequence[int]
    # After each batch, and perhaps before the first.
    ends: Sequence[Offset]
    last_sequence: int

    def batches(self) -> tuple[ProducedBatch, ...]:
        # From an end to the sequence of the last record before it.
        distance = self.last_sequence - self.ends[-1]
        return tuple(
            ProducedBatch((end + distance) & SEQUENCE_MASK, Offset(end - 1), count - 1, timestamp)
            for end, count, timestamp in zip(
                self.ends[-len(self.record_counts) :], self.record_counts, self.max_timestamps, strict=True
            )
        )

    __eq__ = _has_same_batches
    __hash__ = None  # type: ignore[assignment]


class KeptRuns(msgspec.Struct, frozen=True, gc=False, eq=False):
    """Runs that are shorter than what is to be remembered."""

    pieces: tuple[KeptRun | tuple[ProducedBatch, ...], ...]
    last_sequence: int

    def batches(self) -> tuple[ProducedBatch, ...]:
        found: list[ProducedBatch] = []
        for piece in self.pieces:
            found += piece if isinstance(piece, tuple) else piece.batches()
        return tuple(found[-REMEMBERED_BATCHES:])

    __eq__ = _has_same_batches
    __hash__ = None  # type: ignore[assignment]


Newest = tuple[ProducedBatch, ...] | KeptRun | KeptRuns


class ProducerEntry(msgspec.Struct, frozen=True, gc=False):
    """One producer. Never changed, only replaced, so that taking something back is putting the old one in its place."""

    producer_id: ProducerId
    epoch: ProducerEpoch
    newest: Newest = ()
    last_timestamp: int = NO_TIMESTAMP
    coordinator_epoch: int = -1
    transaction_first_offset: Offset = NO_OFFSET

    @property
    def batches(self) -> tuple[ProducedBatch, ...]:
        """The last five batches, or as many as there were."""
        newest = self.newest
        return newest if isinstance(newest, tuple) else newest.batches()

    @property
    def last_sequence(self) -> int:
        newest = self.newest
        if not isinstance(newest, tuple):
            return newest.last_sequence
        return newest[-1].last_sequence if newest else NO_SEQUENCE


def _with_run(earlier: Newest, run: BatchRun, offsets: Sequence[Offset]) -> Newest:
    """The newest batches of a producer when a run follows the earlier ones."""
    counts, timestamps = run.record_counts, run.max_timestamps
    last_sequence = (run.base_sequence + offsets[-1] - offsets[0] - 1) & SEQUENCE_MASK
    count = len(counts)
    if count >= REMEMBERED_BATCHES:
        if count > REMEMBERED_BATCHES:
            last = slice(-REMEMBERED_BATCHES, None)
            counts, timestamps, offsets = counts[last], timestamps[last], offsets[last]
        return KeptRun(counts, timestamps, offsets, last_sequence)
    if count == 1 and isinstance(earlier, tuple):
        batch = ProducedBatch(last_sequence, Offset(offsets[1] - 1), counts[0] - 1, timestamps[0])
        return (*earlier[1 - REMEMBERED_BATCHES :], batch)
    kept = KeptRun(counts, timestamps, offsets, last_sequence)
    # No run is without a batch, so that four of them and this one are enough.
    pieces = earlier.pieces[1 - REMEMBERED_BATCHES :] if isinstance(earlier, KeptRuns) else (earlier,)
    return KeptRuns((*pieces, kept), last_sequence)


class CompletedTransaction(NamedTuple):
    """A transaction with records in this partition that has ended."""

    producer_id: ProducerId
    first_offset: Offset
    last_offset: Offset
    aborted: bool


class Producers:
    """All producers of one partition, by id."""

    __slots__ = ("_entries", "_lost", "_open", "before", "ended", "verifications")

    def __init__(self, entries: Iterable[ProducerEntry] = ()) -> None:
        self._entries = {entry.producer_id: entry for entry in entries}
        # What entries were before the batches that are staged; empty when all is written.
        self.before: dict[ProducerId, ProducerEntry | None] = {}
        # Open transactions (first offset to producer), and ended ones whose marker may still be lost (first to last):
        # only where there are such `replicated_up_to` has anything to do.
        self._open: dict[Offset, ProducerId] = {}
        self.ended: dict[Offset, Offset] = {}
        # Producers whose first batch could not be written: its epoch and sequence.
        self._lost: dict[ProducerId, tuple[ProducerEpoch, int]] = {}
        self.verifications = Verifications()
        self._find_open()

    def __len__(self) -> int:
        return len(self._entries)

    def entry(self, producer_id: ProducerId) -> ProducerEntry | None:
        return self._entries.get(producer_id)

    def entries(self) -> list[ProducerEntry]:
        return list(self._entries.values())

    def check(self, header: BatchHeader | BatchRun) -> Duplicate | None:
        """Whether this batch is the next of its producer. Raises what the producer is to be told when it is not."""
        entry = self._entries.get(ProducerId(header.producer_id))
        if entry is None:
            # Never seen, or forgotten with its records: any sequence may start.
            if self._lost:
                self._check_overtaking(header)
            return None
        epoch = header.producer_epoch
        first = header.base_sequence
        if epoch == entry.epoch:
            last = entry.last_sequence
            if first != last + 1 and not (first == 0 and last == SEQUENCE_MASK):
                return self._duplicate(entry, header)
        elif epoch < entry.epoch:
            raise ProtocolError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {header.producer_id} has epoch {epoch}, but epoch {entry.epoch} has written since",
            )
        elif first != 0:
            raise ProtocolError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {header.producer_id} starts epoch {epoch} with sequence {first} instead of 0",
            )
        if entry.transaction_first_offset != NO_OFFSET and not header.attributes & TRANSACTIONAL_FLAG:
            raise ProtocolError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {header.producer_id} has an open transaction and may only write within it",
            )
        return None

    def is_next(self, run: BatchRun) -> bool:
        """Whether the first batch of a run is the next of its producer, and nothing else is to be said."""
        entry = self._entries.get(run.producer_id)
        if entry is not None:
            newest = entry.newest
            # What `last_sequence` says, without the call: nearly all runs come this way.
            if isinstance(newest, tuple):
                last = newest[-1].last_sequence if newest else NO_SEQUENCE
            else:
                last = newest.last_sequence
            if (
                run.base_sequence == last + 1
                and run.producer_epoch == entry.epoch
                and (entry.transaction_first_offset != NO_OFFSET) == (run.attributes & TRANSACTIONAL_FLAG != 0)
            ):
                return True
        begins = run.attributes & TRANSACTIONAL_FLAG and not self.has_open_transaction(
            run.producer_id, run.producer_epoch
        )
        if begins and not self.verifications.has_agreed(run.producer_id, run.producer_epoch):
            return False  # What `check_begin` would say: every transaction is asked for once before it begins.
        try:
            if self.check(run) is not None:
                return False
            if begins:
                self.check_begin(run)
        except ProtocolError:
            return False
        return True

    def _check_overtaking(self, header: BatchHeader | BatchRun) -> None:
        """The first batch of a producer could not be written, and comes again: none that followed it may be first."""
        lost = self._lost.get(ProducerId(header.producer_id))
        if lost is not None and lost[0] == header.producer_epoch and header.base_sequence > lost[1]:
            raise ProtocolError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {header.producer_id} sent sequence {header.base_sequence} before {lost[1]} was written",
            )

    def has_open_transaction(self, producer_id: int, epoch: int) -> bool:
        """Whether a batch with this epoch continues a transaction."""
        entry = self._entries.get(ProducerId(producer_id))
        return entry is not None and entry.epoch == epoch and entry.transaction_first_offset != NO_OFFSET

    def check_epoch(self, producer_id: ProducerId, epoch: int) -> None:
        """Refuse a producer of which a newer epoch has written here."""
        entry = self._entries.get(producer_id)
        if entry is not None and epoch < entry.epoch:
            raise ProtocolError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {producer_id} has epoch {epoch}, but epoch {entry.epoch} has written since",
            )

    def check_begin(self, header: BatchHeader | BatchRun) -> None:
        """A batch of a transaction either continues one that is open here, or its coordinator has agreed to it.

        One that is open with an older epoch was kept prepared (KIP-939): it takes no more.
        """
        entry = self._entries.get(ProducerId(header.producer_id))
        if entry is None or entry.transaction_first_offset == NO_OFFSET or entry.epoch != header.producer_epoch:
            self.verifications.check(header, entry is not None)

    def check_marker(
        self, producer_id: ProducerId, epoch: ProducerEpoch, coordinator_epoch: int, *, is_newer: bool
    ) -> None:
        """Whether a coordinator may end this producer's transaction; raises what it is to be told when not.

        With `is_newer` the marker must have a higher epoch than the records that it ends (KIP-1228), so that a late
        one never ends the next transaction. One that comes again when its work is done is let through.
        """
        entry = self._entries.get(producer_id)
        if entry is None:
            return
        is_open = entry.transaction_first_offset != NO_OFFSET
        if epoch < entry.epoch or (is_newer and is_open and epoch == entry.epoch):
            raise ProtocolError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"a marker for producer {producer_id} has epoch {epoch}, but epoch {entry.epoch} has written since",
            )
        if coordinator_epoch < entry.coordinator_epoch:
            raise ProtocolError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"a marker comes from coordinator epoch {coordinator_epoch}; the newest is {entry.coordinator_epoch}",
            )

    @staticmethod
    def _duplicate(entry: ProducerEntry, header: BatchHeader | BatchRun) -> Duplicate:
        first = header.base_sequence
        delta = header.last_offset_delta
        for batch in entry.batches:
            if batch.offset_delta == delta and batch.first_sequence == first:
                return Duplicate(batch.base_offset, batch.last_offset, batch.timestamp)
        raise ProtocolError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {entry.producer_id} sent sequence {first} after {entry.last_sequence}",
        )

    def staged(self, header: BatchHeader, base_offset: Offset) -> None:
        """A batch of records of this producer is staged at `base_offset`."""
        delta = header.last_offset_delta
        timestamp = header.max_timestamp
        sequence = header.base_sequence
        # Offsets that a group coordinator commits for a producer have no sequence.
        last_sequence = (sequence + delta) & SEQUENCE_MASK if sequence >= 0 else NO_SEQUENCE
        batch = ProducedBatch(last_sequence, Offset(base_offset + delta), delta, timestamp)
        entry = self._entries.get(ProducerId(header.producer_id))
        earlier = entry.batches if entry is not None and entry.epoch == header.producer_epoch else ()
        self._stage(header, base_offset, entry, (*earlier[1 - REMEMBERED_BATCHES :], batch), timestamp)

    def staged_run(self, run: BatchRun, offsets: Sequence[Offset]) -> None:
        """A run of batches of this producer is staged at these offsets; the last of them follows it."""
        producer_id = run.producer_id
        timestamp = run.max_timestamps[-1]
        entry = self._entries.get(producer_id)
        if entry is None or entry.epoch != run.producer_epoch:
            self._stage(run, offsets[0], entry, _with_run((), run, offsets), timestamp)
            return
        newest = _with_run(entry.newest, run, offsets)
        transaction = entry.transaction_first_offset
        if self._lost or (transaction == NO_OFFSET and run.attributes & TRANSACTIONAL_FLAG):
            self._stage(run, offsets[0], entry, newest, timestamp)
            return
        # All that `_stage` has to do for a producer that goes on.
        self.before.setdefault(producer_id, entry)
        self._entries[producer_id] = ProducerEntry(
            producer_id, entry.epoch, newest, timestamp, entry.coordinator_epoch, transaction
        )

    def _stage(
        self,
        header: BatchHeader | BatchRun,
        base_offset: Offset,
        entry: ProducerEntry | None,
        newest: Newest,
        timestamp: int,
    ) -> None:
        """Remember these as the newest batches of a producer; the first of those that are staged has this header."""
        producer_id = ProducerId(header.producer_id)
        self.before.setdefault(producer_id, entry)
        if self._lost:
            self._lost.pop(producer_id, None)
        coordinator_epoch = -1
        transaction = NO_OFFSET
        if entry is not None:
            coordinator_epoch = entry.coordinator_epoch
            transaction = entry.transaction_first_offset
        if header.attributes & TRANSACTIONAL_FLAG and transaction == NO_OFFSET:
            transaction = base_offset
            self._open[base_offset] = producer_id
            self.verifications.end(producer_id)
        self._entries[producer_id] = ProducerEntry(
            producer_id, ProducerEpoch(header.producer_epoch), newest, timestamp, coordinator_epoch, transaction
        )

    def staged_marker(self, header: BatchHeader, offset: Offset, marker: EndTransaction) -> CompletedTransaction | None:
        """The end of a transaction of this producer is staged at `offset`."""
        producer_id = ProducerId(header.producer_id)
        entry = self._entries.get(producer_id)
        self.before.setdefault(producer_id, entry)
        self.verifications.end_by_marker(producer_id, header.producer_epoch)
        first = entry.transaction_first_offset if entry else NO_OFFSET
        newest = entry.newest if entry and entry.epoch == header.producer_epoch else ()
        self._entries[producer_id] = ProducerEntry(
            producer_id, ProducerEpoch(header.producer_epoch), newest, header.max_timestamp, marker.coordinator_epoch
        )
        if first == NO_OFFSET:
            return None
        del self._open[first]
        self.ended[first] = offset
        return CompletedTransaction(producer_id, first, offset, not marker.is_commit)

    def written(self) -> None:
        """Everything staged is in the log."""
        self.before.clear()

    def not_written(self) -> None:
        """Nothing of what was staged is in the log: be what we were."""
        for producer_id, entry in self.before.items():
            if entry is None:
                lost = self._entries.pop(producer_id)
                if lost.batches and len(self._lost) < LOST_PRODUCERS_MAX:
                    self._lost[producer_id] = (lost.epoch, lost.batches[0].first_sequence)
            else:
                self._entries[producer_id] = entry
        if self.before:
            self.before.clear()
            self._find_open()
            self.ended = {first: last for first, last in self.ended.items() if first not in self._open}

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Forget producers that have been silent for long and have no open transaction."""
        self.verifications.expire(now_ms, expiration_ms)
        self._lost.clear()
        for producer_id, entry in list(self._entries.items()):
            if entry.transaction_first_offset == NO_OFFSET and now_ms - entry.last_timestamp >= expiration_ms:
                del self._entries[producer_id]

    def first_unstable_offset(self) -> Offset | None:
        """Where the first transaction begins whose end is not yet decided, or not yet replicated."""
        first = min(self._open, default=None)
        completed = min(self.ended, default=None)
        if first is None or completed is None:
            return first if completed is None else completed
        return min(first, completed)

    def last_stable_offset_after(self, completed: CompletedTransaction) -> Offset:
        """Up to where every transaction is decided, once this one is."""
        return min(self._open, default=Offset(completed.last_offset + 1))

    def replicated_up_to(self, high_watermark: Offset) -> None:
        """Ends of transactions below the high watermark can no longer be lost."""
        for first, last in list(self.ended.items()):
            if last < high_watermark:
                del self.ended[first]

    def _find_open(self) -> None:
        self._open = {
            entry.transaction_first_offset: entry.producer_id
            for entry in self._entries.values()
            if entry.transaction_first_offset != NO_OFFSET
        }
