"""How long a caller is willing to wait, carried through every step of what it asked for."""

from __future__ import annotations

import time
from typing import Final

RETRY_BACKOFF_S: Final = 0.05
RETRY_BACKOFF_MAX_S: Final = 1.0


class Deadline:
    """A point in time, and the pauses between tries before it."""

    def __init__(self, timeout_s: float) -> None:
        self._end = time.monotonic() + timeout_s
        self._backoff_s = RETRY_BACKOFF_S

    def remaining_s(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self._end - time.monotonic())

    def within(self, timeout_s: float) -> Deadline:
        """A step that may take this long, but not longer than the whole."""
        return Deadline(min(timeout_s, self.remaining_s()))

    def pause(self) -> bool:
        """Sleep before another try, each time a little longer; False when there is no time for one."""
        if self.remaining_s() <= self._backoff_s:
            return False
        time.sleep(self._backoff_s)
        self._backoff_s = min(2 * self._backoff_s, RETRY_BACKOFF_MAX_S)
        return True
