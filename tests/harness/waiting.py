"""Waiting for what comes true a moment later, as in any system of several parts."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], bool], seconds_max: float = 10) -> None:
    """Return as soon as the condition holds; fail when it does not in time."""
    deadline = time.monotonic() + seconds_max
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.02)
