"""Applications with Java's producer that write lots of records: plainly, idempotently, or each lot as a transaction.

The program is Java (`bench/java/TransactionLots.java`) and has the kinds take turns in one process; this runs it and
reads what it prints. Nothing here knows whose broker it is.
"""

from __future__ import annotations

import subprocess
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


class Lots(msgspec.Struct, frozen=True):
    lots: int
    lot_us_median: float
    broker_cpu_us_per_lot: float


class Compared(msgspec.Struct, frozen=True):
    plain: Lots
    idempotent: Lots
    transactions: Lots

    @property
    def overhead(self) -> float:
        """The time of a lot in transactions, as a multiple of that without them."""
        return self.transactions.lot_us_median / self.idempotent.lot_us_median

    @property
    def idempotence(self) -> float:
        """The time of a lot that is written idempotently, as a multiple of that of a plain one."""
        return self.idempotent.lot_us_median / self.plain.lot_us_median


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
    return Compared(**{line.split()[0]: _lots(line) for line in done.stdout.splitlines()})


def _lots(line: str) -> Lots:
    _, lots, median_ns, ticks = line.split()
    return Lots(int(lots), int(median_ns) / 1e3, int(ticks) / TICKS_PER_SECOND / int(lots) * 1e6)
