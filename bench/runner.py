"""One run: rounds in which both servers start on empty folders, warm up, and take turns at every scenario."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from bench.generators import run_generator, session_fetch
from bench.generators.pipelined_produce import Load, Produced
from bench.measure import Samples
from bench.plan import Plan
from bench.scenarios import Scenario
from bench.scenarios.footprint import FOOTPRINT
from bench.servers import OURS, THEIRS, TITLES, Contender, start
from bench.topics import topic_on

WARM_UP_WINDOW_SECONDS: Final = 2.5
# A window that is cheaper than all before by this factor shows that the server is not warm yet.
WARM_UP_CHEAPER: Final = 0.95
WARM_UP_WINDOWS_NO_CHEAPER: Final = 2
STEPS_AROUND: Final = 2  # Start and warm-up of each server of a round.


class Runner:
    def __init__(
        self,
        plan: Plan,
        scenarios: Sequence[Scenario],
        folder: Path,
        *,
        servers: Sequence[str] = (OURS, THEIRS),
        on_step: Callable[[str], None],
        on_done: Callable[[], None],
    ) -> None:
        self._plan = plan
        self._scenarios = scenarios
        self._folder = folder
        self._servers = servers
        self._on_step = on_step
        self._on_done = on_done
        self.samples: Samples = {}

    @property
    def steps(self) -> int:
        """How often `on_done` will be called."""
        return self._plan.rounds * len(self._servers) * (len(self._scenarios) + STEPS_AROUND)

    def run(self) -> Samples:
        for number in range(self._plan.rounds):
            # Whoever goes second finds the caches as the first left them: take turns.
            self._round(number, self._servers if number % 2 == 0 else self._servers[::-1])
        return self.samples

    def _round(self, number: int, order: Iterable[str]) -> None:
        prefix = f"round {number + 1}/{self._plan.rounds}"
        with ExitStack() as running:
            contenders: list[Contender] = []
            for name in order:
                self._on_step(f"{prefix} · start {TITLES[name]}")
                server = start(name, self._folder / name)
                running.callback(server.stop)
                contenders.append(server)
                self._keep(server, FOOTPRINT.at_start(server))
                self._on_done()
            for server in contenders:
                self._on_step(f"{prefix} · warm up {TITLES[server.name]}")
                self._warm_up(server)
                self._on_done()
            for scenario in self._scenarios:
                for server in contenders:
                    step = f"{prefix} · {scenario.name} · {TITLES[server.name]}"
                    self._on_step(step)
                    # What the one before left to write must not slow this one down.
                    os.sync()
                    self._keep(server, scenario.run(server, self._plan, self._noter(step)))
                    self._on_done()

    def _noter(self, step: str) -> Callable[[str], None]:
        return lambda detail: self._on_step(f"{step} · {detail}")

    def _warm_up(self, server: Contender) -> None:
        """Load it until it gets no cheaper: a JVM goes on compiling what it does most for tens of seconds."""
        deadline = time.monotonic() + self._plan.warm_up_seconds_max
        with topic_on(server, "warm-up") as topic:
            fetch = session_fetch.Load(server.port, server.pid, topic, 6, 5, WARM_UP_WINDOW_SECONDS)
            run_generator("session_fetch", fetch, session_fetch.Fetched)
            produce = Load(server.port, server.pid, topic, 6, 20, WARM_UP_WINDOW_SECONDS, 0)
            cheapest = float("inf")
            no_cheaper = 0
            while no_cheaper < WARM_UP_WINDOWS_NO_CHEAPER and time.monotonic() < deadline:
                cost = run_generator("pipelined_produce", produce, Produced).cpu_us_per_request
                no_cheaper = 0 if cost < cheapest * WARM_UP_CHEAPER else no_cheaper + 1
                cheapest = min(cheapest, cost)

    def _keep(self, server: Contender, figures: Mapping[str, float]) -> None:
        for name, value in figures.items():
            self.samples.setdefault(name, {}).setdefault(server.name, []).append(value)
