"""One producer of a partition that goes on: what was known of it, and the batches that came since.

Batches are kept as they came, and become what snapshots and retries need only when somebody asks: nearly all of them
are followed by five others before anybody does. What a failed write has lost is known by its offset, so that keeping
one costs nothing more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from tidelog.log.producer_entry import REMEMBERED_BATCHES, ProducedBatch, ProducerEntry
from tidelog.model.ids import NO_OFFSET, Offset
from tidelog.wire.batch import SEQUENCE_MASK, TRANSACTIONAL_FLAG

# Batches that followed each other, or the last five of them: the sequence and the offset after the last of all; for
# each how many offsets it has, and its timestamp.
KeptRun: TypeAlias = tuple[int, Offset, Sequence[int], Sequence[int]]
# When there are more runs than this, so many of the oldest are forgotten together: what stays, and is written, has the
# batches that are remembered, since no run is without one.
FORGOTTEN_RUNS: Final = 11
KEPT_RUNS_MAX: Final = FORGOTTEN_RUNS + REMEMBERED_BATCHES


class ProducerTail:
    """`next_sequence`, `epoch` and `transactional` (the flag, or 0) are what the next batch must have to go on.

    Others may ask for `entry` from their threads: all that changes for it is the list of runs, which follow `known`.
    """

    __slots__ = ("epoch", "known", "next_sequence", "runs", "transactional")

    def __init__(self, entry: ProducerEntry) -> None:
        self.known = entry
        self.epoch = entry.epoch
        self.next_sequence = (entry.last_sequence + 1) & SEQUENCE_MASK if entry.batches else 0
        self.transactional = 0 if entry.transaction_first_offset == NO_OFFSET else TRANSACTIONAL_FLAG
        self.runs: list[KeptRun] = []

    @property
    def last_timestamp(self) -> int:
        return self.runs[-1][3][-1] if self.runs else self.known.last_timestamp

    def entry(self) -> ProducerEntry:
        """The producer as it is now."""
        entry = self.known
        runs = self.runs[-REMEMBERED_BATCHES:]
        if not runs:
            return entry
        batches = list(entry.batches)
        for run in runs:
            batches += _batches_of(run)
        return ProducerEntry(
            entry.producer_id,
            entry.epoch,
            tuple(batches[-REMEMBERED_BATCHES:]),
            batches[-1].timestamp,
            entry.coordinator_epoch,
            entry.transaction_first_offset,
        )

    def copy(self) -> ProducerTail:
        """The same, which others do not change."""
        copied = ProducerTail(self.known)
        copied.next_sequence = self.next_sequence
        copied.runs = list(self.runs)
        return copied

    def take_back(self, first_lost: Offset) -> None:
        """What was to be written from this offset on is lost."""
        runs = self.runs
        if not runs or runs[-1][1] <= first_lost:
            return
        while runs and runs[-1][1] > first_lost:
            runs.pop()
        self.next_sequence = runs[-1][0] if runs else (self.known.last_sequence + 1) & SEQUENCE_MASK


def _batches_of(run: KeptRun) -> list[ProducedBatch]:
    sequence, offset, counts, timestamps = run
    batches = []
    for count, timestamp in zip(reversed(counts), reversed(timestamps), strict=True):
        batches.append(ProducedBatch((sequence - 1) & SEQUENCE_MASK, Offset(offset - 1), count - 1, timestamp))
        sequence -= count
        offset = Offset(offset - count)
    return batches[::-1]
