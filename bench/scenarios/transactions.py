"""Transactions: how many a broker ends, how long an end takes, and what they cost against writing without them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from bench.generators import run_generator
from bench.generators.transaction_lots import Kind, Load, Lots
from bench.measure import Better, Curve, Metric
from bench.plan import Plan
from bench.scenarios import Note
from bench.servers import Contender
from bench.topics import topic_on

PRODUCERS: Final = 8
RECORD_BYTES: Final = 100
LOT_RECORD_BYTES: Final = 1_000
# Records in a transaction -> name, how many of them are a batch.
SIZES: Final = {1: ("one", 1), 100: ("hundred", 100)}
LOT: Final = 500
BATCH: Final = 100

OVERHEAD: Final = Curve(
    "transactions.by",
    f"a 1,000-byte record in lots of {LOT}, idempotent (0) and in transactions ({LOT})",
    "µs",
    "records in a transaction",
    (0, LOT),
    1.15,
)
IDEMPOTENCE: Final = Curve(
    "transactions.idempotent.by",
    f"a 1,000-byte record in lots of {LOT} with acks=all, plain (0) and idempotent (1)",
    "µs",
    "idempotent",
    (0, 1),
    1.03,
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
    )
    curves: Sequence[Curve] = (OVERHEAD, IDEMPOTENCE)

    def run(self, server: Contender, plan: Plan, note: Note) -> Mapping[str, float]:
        figures: dict[str, float] = {}
        for records, (key, batch) in SIZES.items():
            note(f"transactions of {records}")
            taken = self._lots(server, plan, Kind.TRANSACTIONS, key, batch, 1)
            figures[f"transactions.{key}.rate"] = taken.lots_per_second
            figures[f"transactions.{key}.cpu"] = taken.broker_cpu_seconds / taken.lots * 1e6
        note("commits of one producer")
        alone = self._lots(server, plan, Kind.TRANSACTIONS, "alone", 1, 1, producers=1)
        figures["transactions.commit.p50"] = alone.end_p50_ms
        figures["transactions.commit.p99"] = alone.end_p99_ms
        costs = {}
        for kind in Kind:
            note(f"lots of {LOT}, {kind.value}")
            lots = self._lots(server, plan, kind, kind.value, BATCH, LOT // BATCH, record_bytes=LOT_RECORD_BYTES)
            costs[kind] = lots.us_per_record
        figures[OVERHEAD.point(0)] = figures[IDEMPOTENCE.point(1)] = costs[Kind.IDEMPOTENT]
        figures[OVERHEAD.point(LOT)] = costs[Kind.TRANSACTIONS]
        figures[IDEMPOTENCE.point(0)] = costs[Kind.PLAIN]
        return figures

    def _lots(
        self,
        server: Contender,
        plan: Plan,
        kind: Kind,
        name: str,
        records: int,
        batches: int,
        *,
        producers: int = PRODUCERS,
        record_bytes: int = RECORD_BYTES,
    ) -> Lots:
        with topic_on(server, f"{self.name}-{name}", PRODUCERS) as topic:
            load = Load(
                server.port, server.pid, topic, kind, producers, batches, records, record_bytes, plan.pipelined_seconds
            )
            return run_generator("transaction_lots", load, Lots)


TRANSACTIONS_SCENARIO = Transactions()
