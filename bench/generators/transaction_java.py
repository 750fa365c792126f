"""Applications with Java's producer that write lots of records: plainly, idempotently, or each lot as a transaction.

The program is Java (`bench/java/TransactionLots.java`) and has the kinds take turns in one process; this runs it and
reads what it prints. It runs twice, with the kinds the other way round: which of them is set up first makes a
difference of some percent, as large as what is looked for. Nothing here knows whose broker it is.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from typing import Final

import msgspec

from bench import PROJECT
from bench.alternation import PASS_SECONDS, Pass
from bench.generators.transaction_kinds import Compared
from bench.generators.transaction_lots import Kind
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
    # For each kind.
    seconds: float
    # For each kind, too; a JVM needs it before it is what it will be.
    warm_up_seconds: float = 6.0


def run(load: Load) -> Compared:
    kinds = [kind.value for kind in Kind]
    passes: dict[str, list[Pass]] = {}
    for order in (kinds, kinds[::-1]):
        for line in _printed(load, order):
            kind, lots, median_ns, ticks = line.split()
            passes.setdefault(kind, []).append(Pass(int(lots), int(median_ns) / 1e3, int(ticks) / TICKS_PER_SECOND))
    return Compared(**passes)


def _printed(load: Load, order: Sequence[str]) -> list[str]:
    """What the program says of half of the time, when it sets the kinds up in this order."""
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
        str(PASS_SECONDS),
        str(round(load.seconds / 2 / PASS_SECONDS)),
        *order,
        heap=CLIENT_HEAP,
        quick=False,
    )
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX)
    if done.returncode:
        raise RuntimeError(f"Java's producers failed:\n{done.stdout}\n{done.stderr}")
    return done.stdout.splitlines()
