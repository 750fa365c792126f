"""Timers as the broker's edges use them: the part of an event loop that calls back later, and one timer for many
deadlines.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

# A loop may call a little early by its own clock; a deadline must have passed when it is looked at.
SLACK_SECONDS: Final = 0.001


class Timer(Protocol):
    def cancel(self) -> None: ...


class Timers(Protocol):
    def call_later(self, delay: float, callback: Callable[[], object]) -> Timer: ...


class DeadlineTimer:
    """Calls `expire` when the earliest deadline of a machine has passed. The machine keeps its deadlines as data."""

    def __init__(
        self,
        timers: Timers,
        now_ms: Callable[[], int],
        next_deadline_ms: Callable[[], int | None],
        expire: Callable[[int], None],
    ) -> None:
        self._timers = timers
        self._now_ms = now_ms
        self._next_deadline_ms = next_deadline_ms
        self._expire = expire
        self._timer: Timer | None = None
        self._timer_ms = 0

    def update(self) -> None:
        """Called after everything that may have brought a deadline forward. A later one is noticed when it comes up."""
        deadline_ms = self._next_deadline_ms()
        if deadline_ms is None:
            return
        if self._timer is not None:
            if self._timer_ms <= deadline_ms:
                return
            self._timer.cancel()
        self._timer_ms = deadline_ms
        delay_ms = max(deadline_ms - self._now_ms(), 0)
        self._timer = self._timers.call_later(delay_ms / 1000 + SLACK_SECONDS, self._run)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _run(self) -> None:
        self._timer = None
        now_ms = self._now_ms()
        deadline_ms = self._next_deadline_ms()
        while deadline_ms is not None and deadline_ms <= now_ms:
            self._expire(now_ms)
            deadline_ms = self._next_deadline_ms()
        self.update()
