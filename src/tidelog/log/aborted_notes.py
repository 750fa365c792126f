"""Aborted transactions on their way from a marker in the log to the index of the segment that holds it.

Between the two, and for as long as the disk is too full for the index, readers are told of them from here: who reads
committed records must hear of every marker that it can read past. A restart finds what was not noted by reading the
log.
"""

from __future__ import annotations

import contextlib

from tidelog.log.producers import CompletedTransaction
from tidelog.log.transaction_index import AbortedTransaction, TransactionIndex
from tidelog.model.ids import Offset


class AbortedNotes:
    """The aborted transactions of one log that are not in an index yet; all of them end in its active segment."""

    __slots__ = ("staged", "unnoted")

    def __init__(self) -> None:
        self.staged: list[AbortedTransaction] = []
        self.unnoted: list[AbortedTransaction] = []

    def stage(self, completed: CompletedTransaction, last_stable_offset: Offset) -> None:
        """The marker is staged."""
        self.staged.append(
            AbortedTransaction(completed.producer_id, completed.first_offset, completed.last_offset, last_stable_offset)
        )

    def lose_staged(self) -> None:
        """What was staged could not be written."""
        self.staged.clear()

    def written(self, index: TransactionIndex) -> None:
        """What was staged is in the log. What the index cannot take now it will take later."""
        self.unnoted += self.staged
        self.staged.clear()
        with contextlib.suppress(OSError):
            self.note(index)

    def note(self, index: TransactionIndex) -> None:
        """Have all of them in the index of the active segment, as before it is sealed. Raises OSError."""
        while self.unnoted:
            index.add(self.unnoted[0])
            del self.unnoted[0]

    def truncate_to(self, offset: Offset) -> None:
        """Forget transactions whose marker is at `offset` or after it."""
        self.unnoted = [aborted for aborted in self.unnoted if aborted.last_offset < offset]

    def overlapping(self, start: Offset, up_to: Offset) -> list[AbortedTransaction]:
        """Those with records in [start, up_to)."""
        return [one for one in self.unnoted if one.last_offset >= start and one.first_offset < up_to]
