from __future__ import annotations

import time

from tidelog.env.clock import RealClock, SimulatedClock


def test_the_real_clocks_are_those_of_the_machine() -> None:
    clock = RealClock()

    assert abs(clock.now_ms() - time.time() * 1000) < 1000
    assert 0 <= clock.monotonic() - time.monotonic() + 1 <= 1


def test_simulated_time_passes_only_when_told_to() -> None:
    clock = SimulatedClock(1000)
    assert (clock.now_ms(), clock.monotonic()) == (1000, 0.0)
    clock.advance(1500)
    assert (clock.now_ms(), clock.monotonic()) == (2500, 1.5)


def test_a_wall_clock_that_is_set_back_leaves_the_monotonic_one_alone() -> None:
    clock = SimulatedClock(1000)
    clock.advance(10)
    clock.set_wall_clock(5)

    assert (clock.now_ms(), clock.monotonic()) == (5, 0.01)
