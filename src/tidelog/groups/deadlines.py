"""Timers as data: a heap of deadlines that are looked at late, so that moving one on costs next to nothing.

A heartbeat only writes a number into its timer. The heap learns of it when the old deadline comes up, and queues the
timer again. Whoever drives the shard asks for the next deadline and calls `groups.expiry.expire` when it has passed.
"""

from __future__ import annotations

from enum import Enum
from heapq import heapify, heappop, heappush
from typing import Final

NEVER: Final = 2**63 - 1
# Timers that were stopped stay in the heap until they come up, unless they are this many and most of it.
STOPPED_TIMERS_KEPT_MAX: Final = 10_000


class Alarm(Enum):
    """What a deadline is for; `groups/expiry.py` says what happens then."""

    SESSION = "session"
    PENDING_MEMBER = "pending member"
    JOIN = "join"
    SYNC = "sync"
    CONSUMER_SESSION = "consumer session"
    CONSUMER_REBALANCE = "consumer rebalance"
    CONSUMER_JOIN = "consumer join"
    CONSUMER_SYNC = "consumer sync"
    RETENTION = "retention"


class Timer:
    """One deadline that may be moved, or never come."""

    __slots__ = ("alarm", "deadline_ms", "group_id", "member_id", "queued_ms")

    def __init__(self, alarm: Alarm, group_id: str = "", member_id: str = "") -> None:
        self.alarm = alarm
        self.group_id = group_id
        self.member_id = member_id
        self.deadline_ms = NEVER
        # When the heap looks at this timer next; NEVER when it is not in the heap.
        self.queued_ms = NEVER

    @property
    def running(self) -> bool:
        return self.deadline_ms != NEVER


class Deadlines:
    """All timers of one shard."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Timer]] = []
        self._queued = 0
        self._stopped = 0

    def __len__(self) -> int:
        return len(self._heap)

    def start(self, timer: Timer, deadline_ms: int) -> None:
        """Start a timer, or move its deadline."""
        timer.deadline_ms = deadline_ms
        if deadline_ms < timer.queued_ms:
            timer.queued_ms = deadline_ms
            # The running number keeps timers of one deadline in the order in which they were started.
            self._queued += 1
            heappush(self._heap, (deadline_ms, self._queued, timer))

    def stop(self, timer: Timer) -> None:
        if timer.deadline_ms != NEVER:
            timer.deadline_ms = NEVER
            self._stopped += 1
            if self._stopped > STOPPED_TIMERS_KEPT_MAX and self._stopped * 2 > len(self._heap):
                self._sweep()

    def next_ms(self) -> int | None:
        """The next deadline, or None when there is none."""
        heap = self._heap
        while heap:
            queued_ms, _, timer = heap[0]
            if queued_ms == timer.queued_ms:
                if timer.deadline_ms == queued_ms:
                    return queued_ms
                timer.queued_ms = NEVER
                heappop(heap)
                if timer.deadline_ms != NEVER:
                    self.start(timer, timer.deadline_ms)
            else:
                heappop(heap)  # The timer was queued again for an earlier time.
        return None

    def pop(self, now_ms: int) -> Timer | None:
        """The timer whose deadline passed first, which is then no longer running; None when none has."""
        due_ms = self.next_ms()
        if due_ms is None or due_ms > now_ms:
            return None
        _, _, timer = heappop(self._heap)
        timer.queued_ms = timer.deadline_ms = NEVER
        return timer

    def _sweep(self) -> None:
        """Rebuild the heap without timers that were stopped."""
        kept = []
        for entry in self._heap:
            timer = entry[2]
            if entry[0] != timer.queued_ms:
                continue
            if timer.deadline_ms == NEVER:
                timer.queued_ms = NEVER
            else:
                kept.append(entry)
        heapify(kept)
        self._heap = kept
        self._stopped = 0
