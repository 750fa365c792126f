"""Requests that wait for a partition: produce with acks=all until the ISR has the records, fetches until there is
something to read.

The leader calls these; they hold no timers of their own (the broker's edge does) and never look at the log.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Protocol

from tidelog.model.ids import Offset


class Watcher(Protocol):
    """Told when a partition has more to read (a fetch session, a waiting fetch)."""

    def grew(self, partition: object, grown_bytes: int) -> None: ...


class AcksWaiter(Protocol):
    """Told when the high watermark has passed the records it waits for."""

    def replicated(self) -> None: ...

    def failed(self) -> None:
        """They never will be: they were not written, or the disk under the partition is gone."""


class WaitingAcks:
    """Who waits for which end offset of one partition."""

    __slots__ = ("_added", "waiting")

    def __init__(self) -> None:
        # The running number keeps those with the same offset in the order in which they came.
        self.waiting: list[tuple[Offset, int, AcksWaiter]] = []
        self._added = 0

    def add(self, end_offset: Offset, waiter: AcksWaiter) -> None:
        self._added += 1
        heappush(self.waiting, (end_offset, self._added, waiter))

    def high_watermark_moved(self, high_watermark: Offset) -> None:
        while self.waiting and self.waiting[0][0] <= high_watermark:
            heappop(self.waiting)[2].replicated()

    def fail_beyond(self, end_offset: Offset) -> None:
        """Nothing after this offset was written."""
        lost = sorted(entry for entry in self.waiting if entry[0] > end_offset)
        self.waiting = sorted(entry for entry in self.waiting if entry[0] <= end_offset)
        for _, _, waiter in lost:
            waiter.failed()
