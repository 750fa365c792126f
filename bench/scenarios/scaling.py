"""What one small request costs while the broker has more and more partitions and connections. It should not matter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from bench.generators import run_generator, session_fetch
from bench.generators.pipelined_produce import Load, Produced
from bench.measure import Curve, Metric
from bench.plan import Plan
from bench.scenarios import Note
from bench.servers import Contender
from bench.topics import Topic, topic_on

PARTITIONS: Final = (1, 10, 100, 1000)
CONNECTIONS: Final = (1, 10, 50, 100, 500)
FLAT_WITHIN: Final = 1.2
USUAL_CONNECTIONS: Final = 6
USUAL_IN_FLIGHT: Final = 20
SESSIONS: Final = 6
SESSION_IN_FLIGHT: Final = 5

COST: Final = "µs of broker CPU"
BY_PARTITIONS: Final = Curve(
    "scaling.partitions",
    "small produce to one partition of a topic with so many, 6 connections × 20 in flight",
    COST,
    "partitions",
    PARTITIONS,
    FLAT_WITHIN,
)
BY_SPREAD: Final = Curve(
    "scaling.spread",
    "the same, each request to the next partition",
    COST,
    "partitions",
    PARTITIONS,
    FLAT_WITHIN,
)
BY_CONNECTIONS: Final = Curve(
    "scaling.connections",
    "small produce, 20 in flight on each connection",
    COST,
    "connections",
    CONNECTIONS,
    FLAT_WITHIN,
)
BY_SESSION: Final = Curve(
    "scaling.session",
    "fetch in a session over all partitions, one of them with a record to read",
    COST,
    "partitions",
    PARTITIONS,
    FLAT_WITHIN,
)


class Scaling:
    name = "scaling"
    title = "CPU per request from 1 to 1,000 partitions and from 1 to 500 connections"
    metrics: Sequence[Metric] = ()
    curves: Sequence[Curve] = (BY_PARTITIONS, BY_SPREAD, BY_CONNECTIONS, BY_SESSION)

    def run(self, server: Contender, plan: Plan, note: Note) -> Mapping[str, float]:
        figures: dict[str, float] = {}
        for partitions in _sizes(PARTITIONS, plan):
            note(f"{partitions:,} partitions")
            with topic_on(server, f"scaling-{partitions}", partitions) as topic:
                # Fetches come first: they want partitions with one record in each.
                figures[BY_SESSION.point(partitions)] = _fetch(server, topic, plan)
                figures[BY_PARTITIONS.point(partitions)] = _produce(server, topic, plan, USUAL_CONNECTIONS, 1)
                figures[BY_SPREAD.point(partitions)] = _produce(server, topic, plan, USUAL_CONNECTIONS, partitions)
        for connections in _sizes(CONNECTIONS, plan):
            note(f"{connections} connections")
            with topic_on(server, f"scaling-connections-{connections}") as topic:
                figures[BY_CONNECTIONS.point(connections)] = _produce(server, topic, plan, connections, 1)
        return figures


def _produce(server: Contender, topic: Topic, plan: Plan, connections: int, partitions_used: int) -> float:
    load = Load(
        server.port,
        server.pid,
        topic,
        connections,
        USUAL_IN_FLIGHT,
        plan.curve_seconds,
        partitions_used=partitions_used,
    )
    return run_generator("pipelined_produce", load, Produced).cpu_us_per_request


def _fetch(server: Contender, topic: Topic, plan: Plan) -> float:
    load = session_fetch.Load(server.port, server.pid, topic, SESSIONS, SESSION_IN_FLIGHT, plan.curve_seconds)
    return run_generator("session_fetch", load, session_fetch.Fetched).cpu_us_per_request


def _sizes(sizes: tuple[int, ...], plan: Plan) -> tuple[int, ...]:
    return (sizes[0], sizes[-1]) if plan.curve_ends_only else sizes


SCALING = Scaling()
