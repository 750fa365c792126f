"""Time as a port: a wall clock for what is written down, a monotonic one for what is waited for.

Given to everything that asks the time; nothing below the broker calls `time` itself. It never sleeps.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Two clocks: one that people read and may be set back, one that only runs forward."""

    def now_ms(self) -> int:
        """Wall clock, milliseconds since 1970."""
        ...

    def monotonic(self) -> float:
        """Seconds since some point in the past."""
        ...


class RealClock:
    """The machine's clocks."""

    __slots__ = ()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()


class SimulatedClock:
    """A clock that moves only when told to, so that a run can be repeated."""

    __slots__ = ("_monotonic", "_now_ms")

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._monotonic = 0.0

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, milliseconds: int) -> None:
        """Let time pass on both clocks."""
        assert milliseconds >= 0, "time does not run backwards"
        self._now_ms += milliseconds
        self._monotonic += milliseconds / 1000

    def set_wall_clock(self, now_ms: int) -> None:
        """Step the wall clock alone, as an operator or NTP does."""
        self._now_ms = now_ms
