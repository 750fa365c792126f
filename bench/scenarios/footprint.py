"""How long a server takes to its first answer and how much memory it holds. Taken by the runner at the two ends of a
round: these are figures of the server's whole life, not of a load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.measure import Better, Curve, Metric
from bench.plan import Plan
from bench.process import rss_bytes
from bench.scenarios import Note
from bench.servers import Contender


class Footprint:
    name = "footprint"
    title = "start-up to the first answer on an empty folder, and resident memory"
    metrics: Sequence[Metric] = (
        Metric("footprint.start_up", "start-up to the first answer", "s", Better.LOWER, 1 / 5),
        Metric("footprint.rss_idle", "resident memory after start-up", "MB", Better.LOWER),
        Metric("footprint.rss_loaded", "resident memory after the load", "MB", Better.LOWER, 1 / 5),
    )
    curves: Sequence[Curve] = ()

    def at_start(self, server: Contender) -> Mapping[str, float]:
        return {
            "footprint.start_up": server.process.start_seconds,
            "footprint.rss_idle": rss_bytes(server.pid) / 1e6,
        }

    def run(self, server: Contender, plan: Plan, note: Note) -> Mapping[str, float]:
        return {"footprint.rss_loaded": rss_bytes(server.pid) / 1e6}


FOOTPRINT = Footprint()
