"""Applications with Java's producer that write lots of records: plainly, idempotently, or each lot as a transaction.

The program is Java (`bench/java/TransactionLots.java`) and has the kinds take turns in one process; this runs it and
reads what it prints. Nothing here knows whose broker it is.
"""

from __future__ import annotations

import subprocess
from statistics import median
from typing import Final

import msgspec

from bench import PROJECT
from bench.process import TICKS_PER_SECOND
from bench.topics import Topic
from harness.apache_kafka import java_command
from harness.server import HOST

SOURCE: Final = PROJECT / "bench/java/TransactionLots.java"
CLIENT_HEAP: Final = "512m"
SECONDS_MAX: Final = 300


class Load(msgspec.Struct, frozen=True):
    port: int
    broker_pid: int
    topic: Topic
    producers: int
    records_in_lot: int
    record_bytes: int
    seconds: float
    # Each kind has this for itself; a JVM needs it before it is what it will be.
    warm_up_seconds: float = 6.0


class Pass(msgspec.Struct, frozen=True):
    """What one kind did when it was its turn."""

    lots: int
    lot_us_median: float
    broker_cpu_seconds: float


class Lots(msgspec.Struct, frozen=True):
    """What one kind did in all passes."""

    passes: list[Pass]

    @property
    def lot_us_median(self) -> float:
        return median(one.lot_us_median for one in self.passes)

    @property
    def broker_cpu_us_per_lot(self) -> float:
        return sum(one.broker_cpu_seconds for one in self.passes) / sum(one.lots for one in self.passes) * 1e6

    def over(self, other: Lots) -> float:
        """The time of a lot as a multiple of that of another kind, in the middle of all passes.

        Pass by pass: what else the machine does lasts longer than one, and so concerns both.
        """
        pairs = zip(self.passes, other.passes, strict=True)
        return median(one.lot_us_median / its.lot_us_median for one, its in pairs)


class Compared(msgspec.Struct, frozen=True):
    plain: Lots
    idempotent: Lots
    transactions: Lots

    @property
    def overhead(self) -> float:
        """The time of a lot in transactions, as a multiple of that without them."""
        return self.transactions.over(self.idempotent)

    @property
    def idempotence(self) -> float:
        """The time of a lot that is written idempotently, as a multiple of that of a plain one."""
        return self.idempotent.over(self.plain)


def run(load: Load) -> Compared:
    command = java_command(
        str(SOURCE),
        f"{HOST}:{load.port}",
        str(load.broker_pid),
        load.topic.name,
        str(load.topic.partitions),
        str(load.producers),
        str(load.records_in_lot),
        str(load.record_bytes),
        str(load.warm_up_seconds),
        str(load.seconds),
        heap=CLIENT_HEAP,
        quick=False,
    )
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX)
    if done.returncode:
        raise RuntimeError(f"Java's producers failed:\n{done.stdout}\n{done.stderr}")
    passes: dict[str, list[Pass]] = {}
    for line in done.stdout.splitlines():
        kind, lots, median_ns, ticks = line.split()
        passes.setdefault(kind, []).append(Pass(int(lots), int(median_ns) / 1e3, int(ticks) / TICKS_PER_SECOND))
    return Compared(**{kind: Lots(taken) for kind, taken in passes.items()})
