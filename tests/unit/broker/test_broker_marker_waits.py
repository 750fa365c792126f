"""Requests that wait for markers: woken when they are written, told to come again when that takes too long."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.broker.marker_waits import MARKERS_WAIT_MS, MarkerWaits


class Loop:
    """A clock with timers that only move when they are told to."""

    def __init__(self) -> None:
        self.now_ms = 1_000
        self.timers: list[tuple[float, Callable[[], object]]] = []

    def call_later(self, delay: float, callback: Callable[[], object]) -> Timer:
        self.timers.append((self.now_ms + delay * 1000, callback))
        return Timer(self, self.timers[-1])

    def advance(self, by_ms: int) -> None:
        self.now_ms += by_ms
        for timer in [each for each in self.timers if each[0] <= self.now_ms]:
            self.timers.remove(timer)
            timer[1]()


class Timer:
    def __init__(self, loop: Loop, entry: tuple[float, Callable[[], object]]) -> None:
        self._loop = loop
        self._entry = entry

    def cancel(self) -> None:
        self._loop.timers.remove(self._entry)


class Request:
    def __init__(self) -> None:
        self.gave_up = False

    def timed_out(self) -> None:
        self.gave_up = True


def waits() -> tuple[Loop, MarkerWaits[Request]]:
    loop = Loop()
    return loop, MarkerWaits(loop, lambda: loop.now_ms)


def test_who_waits_is_given_back_when_the_markers_are_written_and_is_not_told_later() -> None:
    loop, waiting = waits()
    request, other = Request(), Request()
    waiting.add("a", request)
    waiting.add("b", other)

    assert waiting.ended("a") == [request]
    assert waiting.ended("a") == []
    loop.advance(MARKERS_WAIT_MS + 2)

    assert (request.gave_up, other.gave_up) == (False, True)
    assert waiting.ended("b") == []


def test_each_waits_its_own_time_though_one_timer_serves_all() -> None:
    loop, waiting = waits()
    early, late = Request(), Request()
    waiting.add("a", early)
    loop.advance(MARKERS_WAIT_MS // 2)
    waiting.add("a", late)
    assert len(loop.timers) == 1

    loop.advance(MARKERS_WAIT_MS // 2 + 2)
    assert (early.gave_up, late.gave_up) == (True, False)
    loop.advance(MARKERS_WAIT_MS // 2)
    assert late.gave_up
    assert loop.timers == []


def test_a_timer_of_waits_that_are_over_serves_those_that_came_later() -> None:
    loop, waiting = waits()
    waiting.add("a", Request())
    waiting.ended("a")
    loop.advance(MARKERS_WAIT_MS - 10)
    late = Request()
    waiting.add("a", late)
    loop.advance(20)
    assert not late.gave_up
    loop.advance(MARKERS_WAIT_MS)
    assert late.gave_up


def test_nobody_is_left_when_there_will_be_no_more_markers() -> None:
    loop, waiting = waits()
    requests = [Request(), Request()]
    waiting.add("a", requests[0])
    waiting.add("b", requests[1])

    assert waiting.give_up() == requests
    assert loop.timers == []
