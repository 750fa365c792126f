"""A log with small segments, at noon: what most tests of one partition begin with."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.logs import NOON_MS, SMALL, new_log
from tidelog.env.clock import SimulatedClock
from tidelog.env.files import RealFiles
from tidelog.log.partition import PartitionLog


@pytest.fixture
def clock() -> SimulatedClock:
    return SimulatedClock(NOON_MS)


@pytest.fixture
def log(tmp_path: Path, clock: SimulatedClock) -> PartitionLog:
    return new_log(RealFiles(), clock, str(tmp_path / "tides-0"), SMALL)
