"""An application with confluent-kafka that writes lots of records: plainly, idempotently, or each lot as a transaction.

All wait until a lot is safe before they begin the next: by `flush`, or by `commit_transaction`. The client's own work
for each record is part of the time, as it is in an application. The kinds take turns in one process.
"""

from __future__ import annotations

import time
from typing import Final

import msgspec
from confluent_kafka import Producer

from bench.alternation import Pass, take_turns
from bench.generators import load_from_arguments, print_result
from bench.generators.transaction_kinds import Compared
from bench.generators.transaction_lots import Kind
from bench.process import cpu_time
from bench.topics import Topic
from harness.server import HOST

TIMEOUT_SECONDS: Final = 30.0


class Load(msgspec.Struct, frozen=True):
    port: int
    broker_pid: int
    topic: Topic
    records_in_lot: int
    record_bytes: int
    # For each kind.
    seconds: float
    warm_up_seconds: float = 1.0


class Application:
    def __init__(self, load: Load, kind: Kind) -> None:
        self._load = load
        self._is_transactional = kind is Kind.TRANSACTIONS
        settings: dict[str, str | int | float | bool] = {
            "bootstrap.servers": f"{HOST}:{load.port}",
            "acks": "all",
            "enable.idempotence": kind is not Kind.PLAIN,
            # What a lot waits for is that it is safe, not that it grows.
            "linger.ms": 0,
        }
        if self._is_transactional:
            settings["transactional.id"] = f"application on {load.topic.name}"
        self._producer = Producer(settings)
        if self._is_transactional:
            self._producer.init_transactions(TIMEOUT_SECONDS)
        self._value = bytes(index * 31 % 251 for index in range(load.record_bytes))

    def write(self, seconds: float) -> Pass:
        """Write lots for so long."""
        cpu = cpu_time(self._load.broker_pid)
        began = time.perf_counter()
        lots = 0
        while time.perf_counter() < began + seconds:
            self._write_lot()
            lots += 1
        taken = time.perf_counter() - began
        return Pass(lots, taken / lots * 1e6, cpu_time(self._load.broker_pid).since(cpu).total)

    def _write_lot(self) -> None:
        producer, value, name = self._producer, self._value, self._load.topic.name
        if self._is_transactional:
            producer.begin_transaction()
        for _ in range(self._load.records_in_lot):
            producer.produce(name, value, partition=0)
        if self._is_transactional:
            producer.commit_transaction(TIMEOUT_SECONDS)
        elif producer.flush(TIMEOUT_SECONDS):
            raise RuntimeError("a lot was not written in time")


def run(load: Load) -> Compared:
    kinds = {kind.value: Application(load, kind).write for kind in Kind}
    return Compared(**take_turns(kinds, load.warm_up_seconds, load.seconds))


if __name__ == "__main__":
    print_result(run(load_from_arguments(Load)))
