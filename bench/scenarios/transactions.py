"""Transactions: how many a broker ends, how long an end takes, and what they cost against writing without them.

What is compared is sent by the same code as the same batches: lots of 500 records, each waited for before the next
begins; in transactions, its end is waited for, too. The kinds take turns within one process (`bench/alternation.py`).

What an application pays is said by real clients, which do more for each record than the broker does. The limits are
for Java's producer with its defaults: four of them, on a machine that has nothing left, and one alone. confluent-kafka
speaks the older protocol, waits for two answers more, and mostly for itself: what it pays is told, and how much of it
is the broker's. What is sent as prepared bytes, without a client's work, is what the broker alone sets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from bench.alternation import Interval, broker_cpu_us, lot_us, times_of
from bench.generators import run_generator, transaction_client, transaction_java, transaction_kinds
from bench.generators.transaction_kinds import Compared
from bench.generators.transaction_lots import Kind, Load, Lots
from bench.measure import Better, Curve, Metric
from bench.plan import Plan
from bench.scenarios import Note
from bench.servers import Contender
from bench.topics import topic_on

PRODUCERS: Final = 8
RECORD_BYTES: Final = 100
# Records in a transaction -> name, how many of them are a batch.
SIZES: Final = {1: ("one", 1), 100: ("hundred", 100)}
LOT: Final = 500
BATCH: Final = 100
# What transactions cost is a share of what else is to be done, so it is told for records of these sizes, for a broker
# that is fully used by several producers and for one producer alone.
LOT_RECORD_BYTES: Final = (100, 1_000)
LOT_PRODUCERS: Final = (1, PRODUCERS)
JAVA_RECORD_BYTES: Final = 1_000
JAVA_PRODUCERS: Final = (4, 1)
OVERHEAD_MAX: Final = 1.15
IDEMPOTENCE_MAX: Final = 1.03


def _producers(count: int) -> str:
    return "1 producer" if count == 1 else f"{count} producers"


class Comparison:
    """One way to write lots of each kind, and what is told of it."""

    def __init__(
        self, name: str, who: str, *, overhead_max: float | None = None, idempotence_max: float | None = None
    ) -> None:
        self._overhead = Metric(
            f"{name}.overhead",
            f"{who}: time in transactions / idempotent",
            "×",
            Better.LOWER,
            limit=overhead_max,
            has_interval=True,
        )
        self._idempotence = Metric(
            f"{name}.idempotence",
            f"{who}: time idempotent / plain",
            "×",
            Better.LOWER,
            limit=idempotence_max,
            has_interval=True,
        )
        self._beyond = Metric(f"{name}.beyond", f"{who}: a transaction takes longer by", "µs", Better.LOWER)
        self._cpu = Metric(f"{name}.cpu", f"{who}: it takes more of the broker's CPU by", "µs", Better.LOWER)
        self.metrics = (self._overhead, self._idempotence, self._beyond, self._cpu)

    def figures(self, taken: Compared) -> Mapping[str, float]:
        return {
            **_with_interval(self._overhead, times_of(taken.transactions, taken.idempotent)),
            **_with_interval(self._idempotence, times_of(taken.idempotent, taken.plain)),
            self._beyond.name: lot_us(taken.transactions) - lot_us(taken.idempotent),
            self._cpu.name: broker_cpu_us(taken.transactions) - broker_cpu_us(taken.idempotent),
        }


def _with_interval(metric: Metric, taken: Interval) -> Mapping[str, float]:
    return {metric.name: taken.middle, metric.low: taken.low, metric.high: taken.high}


JAVA: Final = {
    count: Comparison(
        f"transactions.java.{count}",
        f"Java, {_producers(count)}, {JAVA_RECORD_BYTES:,} B",
        overhead_max=OVERHEAD_MAX,
        idempotence_max=IDEMPOTENCE_MAX,
    )
    for count in JAVA_PRODUCERS
}
BYTES: Final = {
    (size, count): Comparison(
        f"transactions.bytes.{size}.{count}",
        f"bytes prepared, {_producers(count)}, {size:,} B",
        idempotence_max=IDEMPOTENCE_MAX,
    )
    for size in LOT_RECORD_BYTES
    for count in LOT_PRODUCERS
}
CONFLUENT: Final = {
    size: Comparison(f"transactions.confluent.{size}", f"confluent-kafka, 1 producer, {size:,} B")
    for size in LOT_RECORD_BYTES
}


class Transactions:
    name = "transactions"
    title = (
        f"{PRODUCERS} producers, transactions of 1 and 100 records; lots of {LOT} records, acks=all,"
        " in transactions and without them"
    )
    metrics: Sequence[Metric] = (
        Metric("transactions.one.rate", "transactions of 1 record", "/s", Better.HIGHER, 2.0),
        Metric("transactions.one.cpu", "broker CPU per transaction of 1 record", "µs", Better.LOWER),
        Metric("transactions.hundred.rate", "transactions of 100 records", "/s", Better.HIGHER, 2.0),
        Metric("transactions.hundred.cpu", "broker CPU per transaction of 100 records", "µs", Better.LOWER),
        Metric("transactions.commit.p50", "p50 of a commit, one producer", "ms", Better.LOWER),
        Metric("transactions.commit.p99", "p99 of a commit, one producer", "ms", Better.LOWER, 1.0),
        *(metric for each in (JAVA, BYTES, CONFLUENT) for one in each.values() for metric in one.metrics),
    )
    curves: Sequence[Curve] = ()

    def run(self, server: Contender, plan: Plan, note: Note) -> Mapping[str, float]:
        figures: dict[str, float] = {}
        for records, (key, batch) in SIZES.items():
            note(f"transactions of {records}")
            taken = self._lots(server, key, batch, PRODUCERS, plan.pipelined_seconds)
            figures[f"transactions.{key}.rate"] = taken.lots_per_second
            figures[f"transactions.{key}.cpu"] = taken.broker_cpu_seconds / taken.lots * 1e6
        note("commits of one producer")
        alone = self._lots(server, "alone", 1, 1, plan.pipelined_seconds)
        figures["transactions.commit.p50"] = alone.end_p50_ms
        figures["transactions.commit.p99"] = alone.end_p99_ms
        for count in JAVA_PRODUCERS:
            note(f"lots of {LOT}, Java, {_producers(count)}")
            figures |= self._java(server, plan, count)
        for size in LOT_RECORD_BYTES:
            for count in LOT_PRODUCERS:
                note(f"lots of {LOT} {size:,}-byte records, {_producers(count)}")
                figures |= self._bytes(server, plan, size, count)
            note(f"lots of {LOT} {size:,}-byte records, confluent-kafka")
            figures |= self._application(server, plan, size)
        return figures

    def _java(self, server: Contender, plan: Plan, count: int) -> Mapping[str, float]:
        with topic_on(server, f"{self.name}-java-{count}", max(JAVA_PRODUCERS)) as topic:
            load = transaction_java.Load(
                server.port, server.pid, topic, count, LOT, JAVA_RECORD_BYTES, plan.compared_seconds
            )
            return JAVA[count].figures(transaction_java.run(load))

    def _bytes(self, server: Contender, plan: Plan, size: int, count: int) -> Mapping[str, float]:
        with topic_on(server, f"{self.name}-bytes-{size}-{count}", PRODUCERS) as topic:
            load = transaction_kinds.Load(
                server.port, server.pid, topic, count, LOT // BATCH, BATCH, size, plan.compared_seconds / 2
            )
            return BYTES[size, count].figures(run_generator("transaction_kinds", load, Compared))

    def _application(self, server: Contender, plan: Plan, size: int) -> Mapping[str, float]:
        with topic_on(server, f"{self.name}-client-{size}") as topic:
            load = transaction_client.Load(server.port, server.pid, topic, LOT, size, plan.compared_seconds / 2)
            return CONFLUENT[size].figures(run_generator("transaction_client", load, Compared))

    def _lots(self, server: Contender, name: str, records: int, producers: int, seconds: float) -> Lots:
        with topic_on(server, f"{self.name}-{name}", PRODUCERS) as topic:
            load = Load(server.port, server.pid, topic, Kind.TRANSACTIONS, producers, 1, records, RECORD_BYTES, seconds)
            return run_generator("transaction_lots", load, Lots)


TRANSACTIONS_SCENARIO = Transactions()
