"""An application with confluent-kafka that writes lots of records: idempotently, or each lot as a transaction.

Both wait until a lot is safe before they begin the next: by `flush`, or by `commit_transaction`. The client's own work
for each record is part of the time, as it is in an application.
"""

from __future__ import annotations

import time
from typing import Final

import msgspec
from confluent_kafka import Producer

from bench.generators import Measured, load_from_arguments, print_result
from bench.generators.window import Window
from bench.topics import Topic
from harness.server import HOST

TIMEOUT_SECONDS: Final = 30.0


class Load(msgspec.Struct, frozen=True):
    port: int
    broker_pid: int
    topic: Topic
    is_transactional: bool
    records_in_lot: int
    record_bytes: int
    seconds: float
    warm_up_seconds: float = 1.0


class Lots(Measured, frozen=True):
    lots: int
    records: int

    @property
    def us_per_record(self) -> float:
        return self.seconds / self.records * 1e6


class Application:
    def __init__(self, load: Load) -> None:
        self._load = load
        settings: dict[str, str | int | float | bool] = {
            "bootstrap.servers": f"{HOST}:{load.port}",
            "enable.idempotence": True,
            # What a lot waits for is that it is safe, not that it grows.
            "linger.ms": 0,
        }
        if load.is_transactional:
            settings["transactional.id"] = f"application on {load.topic.name}"
        self._producer = Producer(settings)
        if load.is_transactional:
            self._producer.init_transactions(TIMEOUT_SECONDS)
        self._value = bytes(index * 31 % 251 for index in range(load.record_bytes))

    def write_for(self, seconds: float) -> int:
        """Write lots for so long; returns how many."""
        until = time.perf_counter() + seconds
        lots = 0
        while time.perf_counter() < until:
            self._write_lot()
            lots += 1
        return lots

    def _write_lot(self) -> None:
        producer, value, name = self._producer, self._value, self._load.topic.name
        if self._load.is_transactional:
            producer.begin_transaction()
        for _ in range(self._load.records_in_lot):
            producer.produce(name, value, partition=0)
        if self._load.is_transactional:
            producer.commit_transaction(TIMEOUT_SECONDS)
        elif producer.flush(TIMEOUT_SECONDS):
            raise RuntimeError("a lot was not written in time")


def run(load: Load) -> Lots:
    application = Application(load)
    application.write_for(load.warm_up_seconds)
    window = Window(load.broker_pid)
    window.open()
    lots = application.write_for(load.seconds)
    return Lots(**window.close(), lots=lots, records=lots * load.records_in_lot)


if __name__ == "__main__":
    print_result(run(load_from_arguments(Load)))
