"""librdkafka, the C client under most languages' clients: produce to one partition, then read it back by assignment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bench.generators import librdkafka_consume, librdkafka_produce, run_generator
from bench.measure import Better, Curve, Metric
from bench.plan import Plan
from bench.scenarios import Note
from bench.servers import Contender
from bench.topics import topic_on


@dataclass(frozen=True)
class Librdkafka:
    name: str
    title: str
    record_bytes: int
    megabytes: Callable[[Plan], int]
    consume_targets: bool

    @property
    def metrics(self) -> Sequence[Metric]:
        target = 1.0 if self.consume_targets else None
        return (
            Metric(f"{self.name}.produce_rate", "produce", "MB/s", Better.HIGHER),
            Metric(f"{self.name}.produce_cpu", "broker CPU per GB produced", "s", Better.LOWER),
            Metric(f"{self.name}.consume_rate", "consume", "MB/s", Better.HIGHER, target),
            Metric(f"{self.name}.consume_cpu", "broker CPU per GB consumed", "s", Better.LOWER, target),
        )

    @property
    def curves(self) -> Sequence[Curve]:
        return ()

    def run(self, server: Contender, plan: Plan, note: Note) -> Mapping[str, float]:
        records = self.megabytes(plan) * 1_000_000 // self.record_bytes
        with topic_on(server, self.name) as topic:
            note("produce")
            produce = librdkafka_produce.Load(server.port, server.pid, topic, records, self.record_bytes)
            sent = run_generator("librdkafka_produce", produce, librdkafka_produce.Sent)
            note("consume")
            consume = librdkafka_consume.Load(server.port, server.pid, topic)
            received = run_generator("librdkafka_consume", consume, librdkafka_consume.Received)
        return {
            f"{self.name}.produce_rate": sent.megabytes_per_second,
            f"{self.name}.produce_cpu": sent.cpu_seconds_per_gigabyte,
            f"{self.name}.consume_rate": received.megabytes_per_second,
            f"{self.name}.consume_cpu": received.cpu_seconds_per_gigabyte,
        }


LIBRDKAFKA = Librdkafka(
    name="librdkafka",
    title="librdkafka: 1,000-byte records, one partition, acks=1, consumed by assignment",
    record_bytes=1000,
    megabytes=lambda plan: plan.librdkafka_megabytes,
    consume_targets=True,
)
LIBRDKAFKA_SMALL = Librdkafka(
    name="librdkafka-small",
    title="librdkafka: 100-byte records, one partition, acks=1, consumed by assignment",
    record_bytes=100,
    megabytes=lambda plan: plan.librdkafka_small_megabytes,
    consume_targets=False,
)
