"""Time, events and chance of a simulated cluster of whole broker nodes: one seed, one run.

Everything that happens is an event in one queue. Each process has a loop of its own, whose events die with it.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any
from uuid import UUID

EPOCH_MS = 1_700_000_000_000


class Event:
    """Something that will happen, unless it is cancelled."""

    __slots__ = ("callback", "cancelled")

    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class World:
    """The queue of events and the one source of chance."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.now = 0.0
        self.steps = 0
        self._queue: list[tuple[float, int, Event, Callable[[], object]]] = []
        self._order = count()

    def after(self, seconds: float, callback: Callable[[], object]) -> Event:
        event = Event(callback)
        self.at(self.now + max(seconds, 0.0), event, callback)
        return event

    def at(self, time: float, event: Event, act: Callable[[], object]) -> None:
        """Call `act` then, unless the event is cancelled."""
        heappush(self._queue, (time, next(self._order), event, act))

    def run_until(self, end: float) -> None:
        while self._queue and self._queue[0][0] <= end:
            at, _, event, act = heappop(self._queue)
            self.now = max(self.now, at)
            if not event.cancelled:
                self.steps += 1
                act()
        self.now = end


class Process:
    """One life of a node: its loop, its threads, its clock, its chance. After `die` nothing of it happens any more.

    While it is paused its time passes and it does nothing; then all that came meanwhile happens at once.
    """

    def __init__(self, world: World, clock_offset_ms: int) -> None:
        self.world = world
        self.alive = True
        self.paused = False
        self._missed: list[Event] = []
        self.clock = ProcessClock(world, clock_offset_ms)
        self.entropy = SeededEntropy(world.random)
        self.executor = SimulatedThreads(self)

    def die(self) -> None:
        self.alive = False

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False
        missed, self._missed = self._missed, []
        for event in missed:
            self.world.at(self.world.now, event, partial(self._run, event))

    # The loop, as far as a broker uses it.

    def time(self) -> float:
        return self.world.now

    def call_soon(self, callback: Callable[..., object], *arguments: object) -> Event:
        return self.call_later(0.0, callback, *arguments)

    call_soon_threadsafe = call_soon

    def call_later(self, delay: float, callback: Callable[..., object], *arguments: object) -> Event:
        event = Event(lambda: callback(*arguments))
        self.world.at(self.world.now + max(delay, 0.0), event, partial(self._run, event))
        return event

    def _run(self, event: Event) -> None:
        if self.alive and self.paused:
            self._missed.append(event)
        elif self.alive and not event.cancelled:
            event.callback()


class ProcessClock:
    """The clock of a machine: it may be wrong about the date."""

    def __init__(self, world: World, offset_ms: int) -> None:
        self._world = world
        self._offset_ms = offset_ms

    def leap(self, milliseconds: int) -> None:
        """Somebody sets the clock."""
        self._offset_ms += milliseconds

    def now_ms(self) -> int:
        return EPOCH_MS + self._offset_ms + int(self._world.now * 1000)

    def monotonic(self) -> float:
        return self._world.now


class SeededEntropy:
    def __init__(self, random: Random) -> None:
        self._random = random

    def uuid(self) -> UUID:
        return UUID(int=self._random.getrandbits(128), version=4)

    def below(self, limit: int) -> int:
        return self._random.randrange(limit)


class SimulatedThreads(Executor):
    """Work for the disk: done in one piece, a little later."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def submit(self, fn: Callable[..., Any], /, *arguments: Any, **keywords: Any) -> Future[Any]:
        future: Future[Any] = Future()

        def run() -> None:
            future.set_result(fn(*arguments, **keywords))

        self._process.call_later(self._process.world.random.expovariate(200), run)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        pass
