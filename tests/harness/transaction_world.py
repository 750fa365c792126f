"""A world for transactions: one clock, one seed, a network that delays, loses and delivers late, a broker that crashes.

Producers are in `transaction_clients.py`, what must hold in `transaction_history.py`. The same seed gives the same run.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from harness.transaction_broker import LOOSE, STRICT, SimulatedBroker
from tidelog.env.simulated_files import SimulatedCrash, SimulatedFiles
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest

START_MS = 1_700_000_000_000
# Fewer than any number of InitProducerId requests.
NO_INIT = -1
# How long a client waits for answers before it takes a new connection.
REQUEST_TIMEOUT_MS = 60


class Violation(AssertionError):
    """A promise of the broker was broken."""


class Faults(NamedTuple):
    """How bad the world is while it is bad."""

    # Part of requests, and of answers, that are lost with their connection.
    loss: float
    # Part of lost requests that arrive all the same, when nobody expects them any more.
    late: float
    latency_ms_max: int
    # Mean time between crashes of the broker; 0 for none.
    crash_ms: int
    # Mean time between writes that fail because the disk is full; 0 for none.
    full_disk_ms: int
    # How long a sync of the disk takes at most.
    sync_ms_max: int = 4
    # Whether the power often fails soon after the process alone has died: then what was only in the page cache is
    # gone, though the new process has read it.
    power_follows: bool = False


CALM = Faults(loss=0.0, late=0.0, latency_ms_max=2, crash_ms=0, full_disk_ms=0)


class Ask(NamedTuple):
    """A request to send: made anew for each try, since a broker writes into what it gets."""

    make: Callable[[], Any]
    version: int
    may_be_late: bool = True


class Client(Protocol):
    """Who sends requests. `connection` counts up whenever it gives up on those that are on their way."""

    connection: int

    def answered(self, connection: int, number: int, response: Any, inits_seen: int) -> None: ...


class World:
    """Time, chance, the network and the disk."""

    def __init__(self, seed: int, faults: Faults, *, strict: bool) -> None:
        self.random = random.Random(seed)
        self.faults = faults
        self.now_ms = START_MS
        self.files = SimulatedFiles(seed)
        self.files.make_directory("/data")
        self.files.sync_directory("/")
        self._strict = strict
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0
        self._producer_ids = 0
        self.sync_ms_max = faults.sync_ms_max
        self._power_fails_next = False
        self.life = 0
        self.broker: SimulatedBroker | None = None
        # InitProducerId requests that have reached a broker, by transactional id: each fences whoever was before.
        self.inits: dict[str, int] = {}
        # Those of them that are not answered: they may act any time.
        self._waiting_inits: dict[str, set[int]] = {}
        self.crashes = 0
        self._start()
        self.schedule_crash()
        self._schedule_full_disk()

    # Time

    def at(self, delay_ms: float, callback: Callable[[], None]) -> None:
        self._order += 1
        heappush(self._events, (self.now_ms + int(delay_ms), self._order, callback))

    def run(self, until_ms: int, is_done: Callable[[], bool] = lambda: False) -> None:
        """Let everything happen that happens until then."""
        events = self._events
        while events and events[0][0] <= until_ms and not is_done():
            self.now_ms, _, callback = heappop(events)
            try:
                callback()
            except SimulatedCrash:
                self.crash()
        if not is_done():
            self.now_ms = until_ms

    # The broker

    def schedule_crash(self) -> None:
        if not self.faults.crash_ms:
            return
        delay_ms = self.random.expovariate(1 / self.faults.crash_ms)
        if self.random.random() < 0.5:
            self.at(delay_ms, self.crash)
        else:
            # In the middle of what it writes.
            self.at(delay_ms, self._crash_while_writing)

    def _crash_while_writing(self) -> None:
        if self.broker is None:
            self.schedule_crash()
        else:
            self.files.crash_at = self.files.operations + self.random.randint(1, 6)

    def crash(self) -> None:
        """The process dies; what the disk may lose as well is lost."""
        self.crashes += 1
        self.life += 1
        self.broker = None
        self._waiting_inits.clear()
        self.files.crash_at = None
        if self._power_fails_next:
            self._power_fails_next = False
            self.files.crash()
        elif self.faults.power_follows:
            self._power_fails_next = True
        elif self._strict and self.random.random() < 0.7:
            self.files.crash()
        self.at(self.random.randint(5, 80), self._start)
        self.schedule_crash()

    def _start(self) -> None:
        if self.broker is not None:
            return
        if self._power_fails_next:
            self._schedule_power_loss()
        try:
            self.broker = SimulatedBroker(self.files, BrokerLoop(self), STRICT if self._strict else LOOSE)
        except OSError:
            # The disk is too full for what a start repairs.
            self.life += 1
            self.at(20, self._start)

    def _schedule_power_loss(self) -> None:
        life = self.life

        def fail() -> None:
            if self.life == life:
                self.crash()

        self.at(self.random.randint(1, 2 * self.sync_ms_max), fail)

    def _schedule_full_disk(self) -> None:
        if not self.faults.full_disk_ms:
            return

        def fill() -> None:
            if self.faults.full_disk_ms:
                used_bytes = (1 << 60) - self._free_bytes()
                self.files.capacity_bytes = used_bytes + self.random.randint(0, 400)
                self.at(self.random.randint(1, 100), make_room)
            self._schedule_full_disk()

        def make_room() -> None:
            self.files.capacity_bytes = None

        self.at(self.random.expovariate(1 / self.faults.full_disk_ms), fill)

    def _free_bytes(self) -> int:
        self.files.capacity_bytes = 1 << 60
        return self.files.free_bytes("/")

    def next_producer_id(self) -> int:
        self._producer_ids += 1
        return self._producer_ids

    # The network

    def send(self, client: Client, asked: list[Ask]) -> None:
        """Send requests over the client's connection, one after the other; the answers come to `answered`."""
        if self.broker is None:
            return  # There is nobody to connect to.
        connection = client.connection
        dice, faults = self.random, self.faults
        arrival_ms = 0
        is_broken = False
        for number, ask in enumerate(asked):
            arrival_ms = max(arrival_ms, dice.randint(0, faults.latency_ms_max))
            if not is_broken and dice.random() < faults.loss:
                # What follows on a broken connection is lost with it.
                is_broken = True
            if is_broken:
                if not ask.may_be_late or dice.random() >= faults.late:
                    break
                arrival_ms = max(arrival_ms, REQUEST_TIMEOUT_MS) + dice.randint(0, 500)
            self._deliver(client, connection, number, ask, arrival_ms)

    def _deliver(self, client: Client, connection: int, number: int, ask: Ask, arrival_ms: int) -> None:
        life = self.life

        def arrive() -> None:
            broker = self.broker
            if broker is None or self.life != life:
                return  # No connection outlives the broker.
            request = ask.make()
            init = 0
            if isinstance(request, InitProducerIdRequest) and request.transactional_id is not None:
                init = self._arrived(request.transactional_id)

            def answer(response: Any) -> None:
                seen = self._answered(request.transactional_id, init) if init else 0
                self._answer(client, connection, number, response, seen)

            broker.handle(request, ask.version, answer)

        self.at(arrival_ms, arrive)

    def _arrived(self, transactional_id: str) -> int:
        """Number an InitProducerId request."""
        number = self.inits[transactional_id] = self.inits.get(transactional_id, 0) + 1
        self._waiting_inits.setdefault(transactional_id, set()).add(number)
        return number

    def _answered(self, transactional_id: str, number: int) -> int:
        """The last one that can have come before this one; none when an earlier one may still come after it."""
        waiting = self._waiting_inits.get(transactional_id, set())
        waiting.discard(number)
        return NO_INIT if waiting and min(waiting) < number else number

    def _answer(self, client: Client, connection: int, number: int, response: Any, inits_seen: int) -> None:
        dice, faults = self.random, self.faults
        if dice.random() < faults.loss:
            return

        def arrive() -> None:
            if client.connection == connection:
                client.answered(connection, number, response, inits_seen)

        self.at(dice.randint(0, faults.latency_ms_max), arrive)


class _Timer:
    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        self.callback = None


class BrokerLoop:
    """The world as one life of a broker sees it: nothing that it asked for happens after its death."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._life = world.life

    def now_ms(self) -> int:
        return self._world.now_ms

    def monotonic(self) -> float:
        return self._world.now_ms / 1000

    def call_soon(self, callback: Callable[[], None]) -> object:
        return self.call_later(0, callback)

    def call_later(self, delay: float, callback: Callable[[], object]) -> _Timer:
        timer = _Timer(callback)

        def fire() -> None:
            if self._world.life == self._life and timer.callback is not None:
                timer.callback()

        self._world.at(delay * 1000, fire)
        return timer

    def sync_later(self, callback: Callable[[], None]) -> None:
        self.call_later(self._world.random.randint(0, self._world.sync_ms_max) / 1000, callback)

    def next_producer_id(self) -> int:
        return self._world.next_producer_id()

    def uuid(self) -> UUID:
        return UUID(int=self._world.random.getrandbits(128))
