"""Simulated time and network for replicas: one heap of events, one source of chance, so that a seed is a whole run."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Final

from tidelog.env.clock import SimulatedClock

START_MS: Final = 1_700_000_000_000
# How long a request waits for its answer.
TIMEOUT_MS: Final = 400


class Alarm:
    """Something that happens later, unless it is called off."""

    __slots__ = ("act",)

    def __init__(self, act: Callable[[], object] | None) -> None:
        self.act = act

    def cancel(self) -> None:
        self.act = None


class Stage:
    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.clock = SimulatedClock(START_MS)
        self.events = 0
        self._heap: list[tuple[int, int, Alarm]] = []
        self._added = 0

    @property
    def now_ms(self) -> int:
        return self.clock.now_ms()

    def at(self, when_ms: int, act: Callable[[], object]) -> Alarm:
        alarm = Alarm(act)
        self._added += 1
        heappush(self._heap, (when_ms, self._added, alarm))
        return alarm

    def after(self, delay_ms: float, act: Callable[[], object]) -> Alarm:
        return self.at(self.now_ms + max(int(delay_ms), 0), act)

    def run_until(self, end_ms: int) -> None:
        heap = self._heap
        while heap and heap[0][0] <= end_ms:
            when_ms, _, alarm = heappop(heap)
            if alarm.act is None:
                continue
            if when_ms > self.now_ms:
                self.clock.advance(when_ms - self.now_ms)
            self.events += 1
            alarm.act()
        if end_ms > self.now_ms:
            self.clock.advance(end_ms - self.now_ms)


class Network:
    """One-way links between named places, in order, with delays; a link that is cut delivers nothing."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.cut: set[tuple[int, int]] = set()
        self.slow: set[tuple[int, int]] = set()
        self._last_ms: dict[tuple[int, int], int] = {}

    def deliver(self, source: int, target: int, act: Callable[[], object]) -> None:
        link = (source, target)
        if link in self.cut:
            return
        chance = self._stage.chance
        delay_ms = chance.randint(50, 300) if link in self.slow else chance.randint(0, 4)
        # A connection keeps its order.
        when_ms = max(self._stage.now_ms + delay_ms, self._last_ms.get(link, 0))
        self._last_ms[link] = when_ms
        self._stage.at(when_ms, lambda: None if link in self.cut else act())

    def heal(self) -> None:
        self.cut.clear()
        self.slow.clear()
