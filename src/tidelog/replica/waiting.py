"""Requests that wait for a partition: produce with acks=all until the ISR has the records, fetches until there is
something to read.

The leader calls these; they hold no timers of their own (the broker's edge does) and never look at the log.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from tidelog.model.ids import Offset


class Watcher(Protocol):
    """Told when a partition has more to read (a fetch session, a waiting fetch)."""

    def grew(self, partition: object, grown_bytes: int) -> None: ...


class AcksWaiter(Protocol):
    """Told when the high watermark has passed the records it waits for."""

    def replicated(self) -> None: ...

    def failed(self) -> None:
        """They never will be: the disk under the partition is gone."""


class WaitingAcks:
    """Produce requests of one partition in the order of their offsets."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: deque[tuple[Offset, AcksWaiter]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, end_offset: Offset, waiter: AcksWaiter) -> None:
        assert not self._waiting or self._waiting[-1][0] <= end_offset
        self._waiting.append((end_offset, waiter))

    def high_watermark_moved(self, high_watermark: Offset) -> None:
        waiting = self._waiting
        while waiting and waiting[0][0] <= high_watermark:
            waiting.popleft()[1].replicated()

    def fail(self) -> None:
        waiting, self._waiting = self._waiting, deque()
        for _, waiter in waiting:
            waiter.failed()
