"""Transactions: how many a broker ends, how long an end takes, and what they cost against writing without them.

What is compared is sent by the same code as the same batches: lots of 500 records, five batches sent together, each lot
waited for before the next begins; in transactions, its end is waited for, too. So the ratio is that of records a second
of a closed loop: with several producers it says what a fully used broker loses, with one what its waiting costs.

What an application pays is said by real clients, which do more for each record than the broker does: Java's producer
with its defaults, and confluent-kafka. By those the overhead is judged; what is sent as prepared bytes, without a
client's work, is the floor that the broker alone sets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from bench.generators import run_generator, transaction_client, transaction_java
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
# that is fully used by several producers and for one producer alone, and for an application with a real client.
LOT_RECORD_BYTES: Final = (100, 1_000)
LOT_PRODUCERS: Final = (1, PRODUCERS)
JAVA_RECORD_BYTES: Final = 1_000
JAVA_PRODUCERS: Final = (1, 4)
# Kinds that are compared take turns, in changing order, so that what changes meanwhile concerns all.
PASSES: Final = 4
OVERHEAD_MAX: Final = 1.15
IDEMPOTENCE_MAX: Final = 1.03


def _producers(count: int) -> str:
    return "1 producer" if count == 1 else f"{count} producers"


def _lot_metrics() -> Iterator[Metric]:
    for size in LOT_RECORD_BYTES:
        for count in LOT_PRODUCERS:
            where = f"{size:,}-byte records, {_producers(count)}"
            yield Metric(
                f"transactions.overhead.{size}.{count}",
                f"bytes prepared: time for lots of {LOT} in transactions / idempotent, {where}",
                "×",
                Better.LOWER,
            )
            yield Metric(
                f"transactions.idempotence.{size}.{count}",
                f"bytes prepared: time for lots of {LOT}, acks=all, idempotent / plain, {where}",
                "×",
                Better.LOWER,
                limit=IDEMPOTENCE_MAX,
            )
        yield Metric(
            f"transactions.lot.{size}.rate", f"{size:,}-byte records in transactions of {LOT}", "/s", Better.HIGHER
        )
        yield Metric(
            f"transactions.lot.{size}.cpu",
            f"broker CPU for a transaction of {LOT} {size:,}-byte records, beyond the same idempotent",
            "µs",
            Better.LOWER,
        )
        yield Metric(
            f"transactions.client.{size}",
            f"confluent-kafka: time for lots of {LOT} {size:,}-byte records in transactions / idempotent",
            "×",
            Better.LOWER,
            limit=OVERHEAD_MAX,
        )
        yield Metric(
            f"transactions.client.{size}.lot",
            f"confluent-kafka: time for a transaction of {LOT} {size:,}-byte records, beyond the same idempotent",
            "µs",
            Better.LOWER,
        )
        yield Metric(
            f"transactions.client.{size}.cpu",
            "confluent-kafka: broker CPU within that time, all that a broker can save",
            "µs",
            Better.LOWER,
        )


def _java_metrics() -> Iterator[Metric]:
    for count in JAVA_PRODUCERS:
        where = f"{JAVA_RECORD_BYTES:,}-byte records, {_producers(count)}"
        yield Metric(
            f"transactions.java.{count}",
            f"Java: time for lots of {LOT} in transactions / idempotent, {where}",
            "×",
            Better.LOWER,
            limit=OVERHEAD_MAX,
        )
        yield Metric(
            f"transactions.java.{count}.idempotence",
            f"Java: time for lots of {LOT}, acks=all, idempotent / plain, {where}",
            "×",
            Better.LOWER,
            limit=IDEMPOTENCE_MAX,
        )
        yield Metric(
            f"transactions.java.{count}.lot", f"Java: time for a transaction of {LOT}, {where}", "ms", Better.LOWER
        )
        yield Metric(
            f"transactions.java.{count}.cpu",
            f"Java: broker CPU for a transaction of {LOT}, beyond the same idempotent, {where}",
            "µs",
            Better.LOWER,
        )


class Transactions:
    name = "transactions"
    title = f"{PRODUCERS} producers, transactions of 1, 100 and {LOT} records; against writing without them"
    metrics: Sequence[Metric] = (
        Metric("transactions.one.rate", "transactions of 1 record", "/s", Better.HIGHER, 2.0),
        Metric("transactions.one.cpu", "broker CPU per transaction of 1 record", "µs", Better.LOWER),
        Metric("transactions.hundred.rate", "transactions of 100 records", "/s", Better.HIGHER, 2.0),
        Metric("transactions.hundred.cpu", "broker CPU per transaction of 100 records", "µs", Better.LOWER),
        Metric("transactions.commit.p50", "p50 of a commit, one producer", "ms", Better.LOWER),
        Metric("transactions.commit.p99", "p99 of a commit, one producer", "ms", Better.LOWER, 1.0),
        *_java_metrics(),
        *_lot_metrics(),
    )
    curves: Sequence[Curve] = ()

    def run(self, server: Contender, plan: Plan, note: Note) -> Mapping[str, float]:
        figures: dict[str, float] = {}
        for records, (key, batch) in SIZES.items():
            note(f"transactions of {records}")
            taken = self._lots(server, Kind.TRANSACTIONS, key, batch, 1, plan.pipelined_seconds)
            figures[f"transactions.{key}.rate"] = taken.lots_per_second
            figures[f"transactions.{key}.cpu"] = taken.broker_cpu_seconds / taken.lots * 1e6
        note("commits of one producer")
        alone = self._lots(server, Kind.TRANSACTIONS, "alone", 1, 1, plan.pipelined_seconds, producers=1)
        figures["transactions.commit.p50"] = alone.end_p50_ms
        figures["transactions.commit.p99"] = alone.end_p99_ms
        for count in JAVA_PRODUCERS:
            note(f"lots of {LOT} {JAVA_RECORD_BYTES:,}-byte records, Java, {_producers(count)}")
            figures |= self._java(server, plan, count)
        for size in LOT_RECORD_BYTES:
            for count in LOT_PRODUCERS:
                note(f"lots of {LOT} {size:,}-byte records, {_producers(count)}")
                figures |= self._compared(server, plan, size, count)
            note(f"lots of {LOT} {size:,}-byte records, confluent-kafka")
            figures |= self._application(server, plan, size)
        return figures

    def _compared(self, server: Contender, plan: Plan, size: int, count: int) -> Mapping[str, float]:
        seconds = dict.fromkeys(Kind, 0.0)
        cpu_us = dict.fromkeys(Kind, 0.0)
        kinds = list(Kind)
        for number in range(PASSES):
            for kind in (*kinds[number % len(kinds) :], *kinds[: number % len(kinds)]):
                taken = self._lots(
                    server,
                    kind,
                    f"{kind.value}-{size}-{count}",
                    BATCH,
                    LOT // BATCH,
                    plan.curve_seconds / 2,
                    producers=count,
                    record_bytes=size,
                )
                seconds[kind] += taken.seconds / taken.lots / PASSES
                cpu_us[kind] += taken.broker_cpu_seconds / taken.lots * 1e6 / PASSES
        figures = {
            f"transactions.overhead.{size}.{count}": seconds[Kind.TRANSACTIONS] / seconds[Kind.IDEMPOTENT],
            f"transactions.idempotence.{size}.{count}": seconds[Kind.IDEMPOTENT] / seconds[Kind.PLAIN],
        }
        if count == PRODUCERS:
            figures[f"transactions.lot.{size}.rate"] = LOT / seconds[Kind.TRANSACTIONS]
            figures[f"transactions.lot.{size}.cpu"] = cpu_us[Kind.TRANSACTIONS] - cpu_us[Kind.IDEMPOTENT]
        return figures

    def _java(self, server: Contender, plan: Plan, count: int) -> Mapping[str, float]:
        with topic_on(server, f"{self.name}-java-{count}", max(JAVA_PRODUCERS)) as topic:
            load = transaction_java.Load(
                server.port, server.pid, topic, count, LOT, JAVA_RECORD_BYTES, plan.pipelined_seconds
            )
            compared = transaction_java.run(load)
        cpu_us = compared.transactions.broker_cpu_us_per_lot - compared.idempotent.broker_cpu_us_per_lot
        return {
            f"transactions.java.{count}": compared.overhead,
            f"transactions.java.{count}.idempotence": compared.idempotence,
            f"transactions.java.{count}.lot": compared.transactions.lot_us_median / 1e3,
            f"transactions.java.{count}.cpu": cpu_us,
        }

    def _application(self, server: Contender, plan: Plan, size: int) -> Mapping[str, float]:
        """What a lot takes an application in transactions, against one without them."""
        us, cpu_us = {False: 0.0, True: 0.0}, {False: 0.0, True: 0.0}
        for _ in range(PASSES):
            for is_transactional in us:
                with topic_on(server, f"{self.name}-client-{size}-{is_transactional}") as topic:
                    load = transaction_client.Load(
                        server.port, server.pid, topic, is_transactional, LOT, size, plan.curve_seconds / 2
                    )
                    taken = run_generator("transaction_client", load, transaction_client.Lots)
                    us[is_transactional] += taken.us_per_record * LOT / PASSES
                    cpu_us[is_transactional] += taken.broker_cpu_seconds / taken.lots * 1e6 / PASSES
        return {
            f"transactions.client.{size}": us[True] / us[False],
            f"transactions.client.{size}.lot": us[True] - us[False],
            f"transactions.client.{size}.cpu": cpu_us[True] - cpu_us[False],
        }

    def _lots(
        self,
        server: Contender,
        kind: Kind,
        name: str,
        records: int,
        batches: int,
        seconds: float,
        *,
        producers: int = PRODUCERS,
        record_bytes: int = RECORD_BYTES,
    ) -> Lots:
        with topic_on(server, f"{self.name}-{name}", PRODUCERS) as topic:
            load = Load(server.port, server.pid, topic, kind, producers, batches, records, record_bytes, seconds)
            return run_generator("transaction_lots", load, Lots)


TRANSACTIONS_SCENARIO = Transactions()
