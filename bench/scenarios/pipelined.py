"""Produce requests from the raw generator: small ones, 16 KB ones as the Java client makes them, and small ones to a
log that is synced before it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bench.generators import run_generator
from bench.generators.pipelined_produce import Load, Produced
from bench.measure import Better, Curve, Metric
from bench.plan import Plan
from bench.scenarios import Note
from bench.servers import Contender
from bench.topics import topic_on


@dataclass(frozen=True)
class PipelinedProduce:
    name: str
    title: str
    connections: int
    in_flight: int
    record_bytes: int
    records_in_batch: int
    seconds: Callable[[Plan], float]
    requests_target: float | None
    settings: Mapping[str, str]

    @property
    def metrics(self) -> Sequence[Metric]:
        metrics = [
            Metric(f"{self.name}.requests", "requests", "/s", Better.HIGHER, self.requests_target),
            Metric(f"{self.name}.cpu", "broker CPU per request", "µs", Better.LOWER),
        ]
        if self.records_in_batch > 1:
            metrics += [
                Metric(f"{self.name}.rate", "throughput", "MB/s", Better.HIGHER),
                Metric(f"{self.name}.cpu_per_gb", "broker CPU per GB", "s", Better.LOWER),
            ]
        return metrics

    @property
    def curves(self) -> Sequence[Curve]:
        return ()

    def run(self, server: Contender, plan: Plan, note: Note) -> Mapping[str, float]:
        with topic_on(server, self.name, settings=self.settings) as topic:
            load = Load(
                server.port,
                server.pid,
                topic,
                self.connections,
                self.in_flight,
                self.seconds(plan),
                record_bytes=self.record_bytes,
                records_in_batch=self.records_in_batch,
            )
            produced = run_generator("pipelined_produce", load, Produced)
        figures = {
            f"{self.name}.requests": produced.requests_per_second,
            f"{self.name}.cpu": produced.cpu_us_per_request,
        }
        if self.records_in_batch > 1:
            gigabytes = produced.requests * self.records_in_batch * self.record_bytes / 1e9
            figures[f"{self.name}.rate"] = gigabytes * 1e3 / produced.seconds
            figures[f"{self.name}.cpu_per_gb"] = produced.broker_cpu_seconds / gigabytes
        return figures


SMALL_PRODUCE = PipelinedProduce(
    name="small-produce",
    title="100-byte records, one per request, 6 connections × 20 in flight, acks=1",
    connections=6,
    in_flight=20,
    record_bytes=100,
    records_in_batch=1,
    seconds=lambda plan: plan.pipelined_seconds,
    requests_target=4.0,
    settings={},
)
LARGE_PRODUCE = PipelinedProduce(
    name="16k-produce",
    title="16 records of 1,000 bytes per request, 6 connections × 5 in flight, acks=1",
    connections=6,
    in_flight=5,
    record_bytes=1000,
    records_in_batch=16,
    seconds=lambda plan: plan.pipelined_seconds,
    requests_target=None,
    settings={},
)
SYNCED_PRODUCE = PipelinedProduce(
    name="synced-produce",
    title="flush.messages=1: 100-byte records, 50 connections × 1 in flight, each on the disk before it is answered",
    connections=50,
    in_flight=1,
    record_bytes=100,
    records_in_batch=1,
    seconds=lambda plan: plan.synced_seconds,
    requests_target=2.0,
    settings={"flush_messages": "1"},
)
