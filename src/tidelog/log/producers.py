"""What a partition remembers of its idempotent producers: epoch, the last five batches, an open transaction.

The broker asks `check` before it stages a batch, the log says `staged` when it has; batches of one loop turn are
checked against each other. What was staged and could not be written is taken back. It never touches a file:
`log/producer_snapshots.py` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from tidelog.log.producer_entry import REMEMBERED_BATCHES, ProducedBatch, ProducerEntry
from tidelog.log.producer_tail import FORGOTTEN_RUNS, KEPT_RUNS_MAX, ProducerTail
from tidelog.log.verifications import Verifications
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import NO_OFFSET, Offset, ProducerEpoch, ProducerId
from tidelog.wire.batch import NO_SEQUENCE, SEQUENCE_MASK, TRANSACTIONAL_FLAG, BatchHeader
from tidelog.wire.batch_run import BatchRun
from tidelog.wire.control import EndTransaction

LOST_PRODUCERS_MAX: Final = 1_000


class Duplicate(NamedTuple):
    """A batch that is in the log already: answered as if it had been appended now."""

    base_offset: Offset
    last_offset: Offset
    timestamp: int


class CompletedTransaction(NamedTuple):
    """A transaction with records in this partition that has ended."""

    producer_id: ProducerId
    first_offset: Offset
    last_offset: Offset
    aborted: bool


class Producers:
    """All producers of one partition, by id."""

    __slots__ = ("_lost", "_open", "_tails", "before", "ended", "verifications", "written_end")

    def __init__(self, entries: Iterable[ProducerEntry] = ()) -> None:
        self._tails = {entry.producer_id: ProducerTail(entry) for entry in entries}
        # What is needed to take back what is staged: producers as they were before it changed more than their newest
        # batches. Nothing when all is written.
        self.before: dict[ProducerId, ProducerTail | None] = {}
        # What lies before is in the log, and not to be taken back.
        self.written_end = Offset(0)
        # Open transactions (first offset to producer), and ended ones whose marker may still be lost (first to last):
        # only where there are such `replicated_up_to` has anything to do.
        self._open: dict[Offset, ProducerId] = {}
        self.ended: dict[Offset, Offset] = {}
        # Producers whose first batch could not be written: its epoch and sequence.
        self._lost: dict[ProducerId, tuple[ProducerEpoch, int]] = {}
        self.verifications = Verifications()
        self._find_open()

    def __len__(self) -> int:
        return len(self._tails)

    def entry(self, producer_id: ProducerId) -> ProducerEntry | None:
        tail = self._tails.get(producer_id)
        return None if tail is None else tail.entry()

    def entries(self) -> list[ProducerEntry]:
        return [tail.entry() for tail in list(self._tails.values())]

    def check(self, header: BatchHeader | BatchRun) -> Duplicate | None:
        """Whether this batch is the next of its producer. Raises what the producer is to be told when it is not."""
        tail = self._tails.get(ProducerId(header.producer_id))
        if tail is None:
            # Never seen, or forgotten with its records: any sequence may start.
            if self._lost:
                self._check_overtaking(header)
            return None
        epoch = header.producer_epoch
        first = header.base_sequence
        if epoch == tail.epoch:
            if first != tail.next_sequence:
                return self._duplicate(tail.entry(), header)
        elif epoch < tail.epoch:
            raise ProtocolError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {header.producer_id} has epoch {epoch}, but epoch {tail.epoch} has written since",
            )
        elif first != 0:
            raise ProtocolError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {header.producer_id} starts epoch {epoch} with sequence {first} instead of 0",
            )
        if tail.transactional and not header.attributes & TRANSACTIONAL_FLAG:
            raise ProtocolError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {header.producer_id} has an open transaction and may only write within it",
            )
        return None

    def going_on(self, run: BatchRun) -> ProducerTail | None:
        """The producer of a run, if it only goes on: the next sequence, the same epoch, in or out of a transaction as
        before. None when there is more to be said, by `is_next`."""
        tail = self._tails.get(run.producer_id)
        if (
            tail is None
            or run.base_sequence != tail.next_sequence
            or run.producer_epoch != tail.epoch
            or run.attributes & TRANSACTIONAL_FLAG != tail.transactional
        ):
            return None
        return tail

    def is_next(self, run: BatchRun, has_agreed: bool = False) -> bool:
        """Whether the first batch of a run is the next of its producer, and nothing else is to be said.

        `has_agreed`: the coordinator of a transaction of the second protocol, whose first batch has sequence 0, has
        said just now that it may begin with it.
        """
        transactional = run.attributes & TRANSACTIONAL_FLAG
        begins = transactional and not self.has_open_transaction(run.producer_id, run.producer_epoch)
        if begins:
            if has_agreed:
                if run.base_sequence:
                    return False
            elif not self.verifications.has_agreed(run.producer_id, run.producer_epoch):
                return False  # What `check_begin` would say: every transaction is asked for once before it begins.
        try:
            if self.check(run) is not None:
                return False
            if begins and not has_agreed:
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
        tail = self._tails.get(ProducerId(producer_id))
        return tail is not None and tail.epoch == epoch and tail.transactional != 0

    def check_epoch(self, producer_id: ProducerId, epoch: int) -> None:
        """Refuse a producer of which a newer epoch has written here."""
        tail = self._tails.get(producer_id)
        if tail is not None and epoch < tail.epoch:
            raise ProtocolError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {producer_id} has epoch {epoch}, but epoch {tail.epoch} has written since",
            )

    def check_begin(self, header: BatchHeader | BatchRun) -> None:
        """A batch of a transaction either continues one that is open here, or its coordinator has agreed to it.

        One that is open with an older epoch was kept prepared (KIP-939): it takes no more.
        """
        tail = self._tails.get(ProducerId(header.producer_id))
        if tail is None or not tail.transactional or tail.epoch != header.producer_epoch:
            self.verifications.check(header, tail is not None)

    def check_marker(
        self, producer_id: ProducerId, epoch: ProducerEpoch, coordinator_epoch: int, *, is_newer: bool
    ) -> None:
        """Whether a coordinator may end this producer's transaction; raises what it is to be told when not.

        With `is_newer` the marker must have a higher epoch than the records that it ends (KIP-1228), so that a late
        one never ends the next transaction. One that comes again when its work is done is let through.
        """
        tail = self._tails.get(producer_id)
        if tail is None:
            return
        if epoch < tail.epoch or (is_newer and tail.transactional and epoch == tail.epoch):
            raise ProtocolError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"a marker for producer {producer_id} has epoch {epoch}, but epoch {tail.epoch} has written since",
            )
        newest = tail.known.coordinator_epoch
        if coordinator_epoch < newest:
            raise ProtocolError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"a marker comes from coordinator epoch {coordinator_epoch}; the newest is {newest}",
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
        count = header.last_offset_delta + 1
        self.staged_run(header, base_offset, Offset(base_offset + count), (count,), (header.max_timestamp,))

    def staged_run(
        self,
        first: BatchHeader | BatchRun,
        base_offset: Offset,
        end: Offset,
        counts: Sequence[int],
        timestamps: Sequence[int],
        going_on: ProducerTail | None = None,
    ) -> None:
        """Batches of a producer, which may be `going_on`, are staged between these offsets.

        What all have in common, or the first has; of each how many offsets it has, and its timestamp.
        """
        tail = going_on or self._tail_for(first, base_offset, end, timestamps[-1])
        sequence = first.base_sequence
        if sequence < 0:
            return
        if len(counts) > REMEMBERED_BATCHES:
            counts, timestamps = counts[-REMEMBERED_BATCHES:], timestamps[-REMEMBERED_BATCHES:]
        tail.next_sequence = sequence = (sequence + end - base_offset) & SEQUENCE_MASK
        runs = tail.runs
        runs.append((sequence, end, counts, timestamps))
        if len(runs) > KEPT_RUNS_MAX:
            self._forget_oldest(ProducerId(first.producer_id), tail)

    def _tail_for(
        self, first: BatchHeader | BatchRun, base_offset: Offset, end: Offset, timestamp: int
    ) -> ProducerTail:
        """What is known of a producer, or is from these batches on."""
        tail = self._tails.get(ProducerId(first.producer_id))
        if (
            tail is None
            or tail.epoch != first.producer_epoch
            or tail.transactional != first.attributes & TRANSACTIONAL_FLAG
            # Offsets that a group coordinator commits for a producer have no sequence.
            or first.base_sequence < 0
            or self._lost
        ):
            return self._begin_anew(first, base_offset, end, timestamp, tail)
        return tail

    def _forget_oldest(self, producer_id: ProducerId, tail: ProducerTail) -> None:
        """Keep no more runs than may be asked for, also when all that is staged is lost."""
        if tail.runs[KEPT_RUNS_MAX - 1][1] > self.written_end and producer_id not in self.before:
            # So much is staged that what was before it would not be found in the runs that stay.
            self.before[producer_id] = tail.copy()
        del tail.runs[:FORGOTTEN_RUNS]

    def _begin_anew(
        self, first: BatchHeader | BatchRun, base_offset: Offset, end: Offset, timestamp: int, tail: ProducerTail | None
    ) -> ProducerTail:
        """A producer of which more changes than its newest batches: the epoch, or a transaction begins."""
        producer_id, epoch = ProducerId(first.producer_id), ProducerEpoch(first.producer_epoch)
        self.before.setdefault(producer_id, tail)
        if self._lost:
            self._lost.pop(producer_id, None)
        batches: tuple[ProducedBatch, ...] = ()
        coordinator_epoch = -1
        transaction = NO_OFFSET
        if tail is not None:
            known = tail.entry()
            coordinator_epoch = known.coordinator_epoch
            transaction = known.transaction_first_offset
            if known.epoch == epoch:
                batches = known.batches
        if first.attributes & TRANSACTIONAL_FLAG and transaction == NO_OFFSET:
            transaction = base_offset
            self._open[base_offset] = producer_id
            self.verifications.end(producer_id)
        if first.base_sequence < 0:
            unnumbered = ProducedBatch(NO_SEQUENCE, Offset(end - 1), end - base_offset - 1, timestamp)
            batches = (*batches[1 - REMEMBERED_BATCHES :], unnumbered)
        entry = ProducerEntry(producer_id, epoch, batches, timestamp, coordinator_epoch, transaction)
        tail = self._tails[producer_id] = ProducerTail(entry)
        return tail

    def staged_marker(self, header: BatchHeader, offset: Offset, marker: EndTransaction) -> CompletedTransaction | None:
        """The end of a transaction of this producer is staged at `offset`."""
        producer_id, epoch = ProducerId(header.producer_id), ProducerEpoch(header.producer_epoch)
        return self.staged_end(producer_id, epoch, header.max_timestamp, offset, *marker)

    def staged_end(
        self,
        producer_id: ProducerId,
        epoch: ProducerEpoch,
        timestamp_ms: int,
        offset: Offset,
        is_commit: bool,
        coordinator_epoch: int,
    ) -> CompletedTransaction | None:
        """The same, for who has made the marker and need not read it."""
        tail = self._tails.get(producer_id)
        self.before.setdefault(producer_id, tail)
        self.verifications.end_by_marker(producer_id, epoch)
        batches = tail.entry().batches if tail is not None and tail.epoch == epoch else ()
        self._tails[producer_id] = ProducerTail(
            ProducerEntry(producer_id, epoch, batches, timestamp_ms, coordinator_epoch)
        )
        first = NO_OFFSET if tail is None else tail.known.transaction_first_offset
        if first == NO_OFFSET:
            return None
        del self._open[first]
        self.ended[first] = offset
        return CompletedTransaction(producer_id, first, offset, not is_commit)

    def written(self) -> None:
        """Everything staged is in the log: nothing is to be taken back any more."""
        self.before.clear()

    def not_written(self, first_lost: Offset) -> None:
        """Nothing of what was staged, which is all from this offset on, is in the log: be what we were."""
        for producer_id, tail in self.before.items():
            if tail is None:
                lost = self._tails.pop(producer_id).entry()
                if lost.batches and len(self._lost) < LOST_PRODUCERS_MAX:
                    self._lost[producer_id] = (lost.epoch, lost.batches[0].first_sequence)
            else:
                self._tails[producer_id] = tail
        for tail in self._tails.values():
            tail.take_back(first_lost)
        if self.before:
            self._find_open()
            self.ended = {first: last for first, last in self.ended.items() if first not in self._open}
        self.written()

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Forget producers that have been silent for long and have no open transaction."""
        self.verifications.expire(now_ms, expiration_ms)
        self._lost.clear()
        for producer_id, tail in list(self._tails.items()):
            if not tail.transactional and now_ms - tail.last_timestamp >= expiration_ms:
                del self._tails[producer_id]

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
            tail.known.transaction_first_offset: producer_id
            for producer_id, tail in self._tails.items()
            if tail.transactional
        }
