"""How long a single produce takes while the broker has little to do: 1,000 requests a second, one at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from bench.generators import run_generator
from bench.generators.paced_produce import Latencies, Load
from bench.measure import Better, Curve, Metric
from bench.plan import Plan
from bench.scenarios import Note
from bench.servers import Contender
from bench.topics import topic_on

REQUESTS_PER_SECOND: Final = 1000
ACKS: Final = (("acks=1", "one", 1), ("acks=all", "all", -1))


class Latency:
    name = "latency"
    title = f"single 1,000-byte records at {REQUESTS_PER_SECOND:,} a second"
    metrics: Sequence[Metric] = tuple(
        Metric(f"latency.{key}.{cut}", f"{cut}, {label}", "ms", Better.LOWER)
        for label, key, _ in ACKS
        for cut in ("p50", "p99")
    )
    curves: Sequence[Curve] = ()

    def run(self, server: Contender, plan: Plan, note: Note) -> Mapping[str, float]:
        figures: dict[str, float] = {}
        for label, key, acks in ACKS:
            note(label)
            with topic_on(server, f"{self.name}-{key}") as topic:
                load = Load(server.port, server.pid, topic, acks, REQUESTS_PER_SECOND, plan.latency_seconds)
                taken = run_generator("paced_produce", load, Latencies)
            figures[f"latency.{key}.p50"] = taken.p50_ms
            figures[f"latency.{key}.p99"] = taken.p99_ms
        return figures


LATENCY = Latency()
