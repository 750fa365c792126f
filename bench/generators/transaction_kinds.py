"""Plain, idempotent and transactional producers that take turns in one process: what each costs against the others.

The producers are those of `transaction_lots`: bytes prepared, a lot of a few batches always under way. A pass ends when
the last lot that was begun in it is acknowledged.
"""

from __future__ import annotations

import selectors
import time

import msgspec

from bench.alternation import PASS_SECONDS, Pass, take_turns
from bench.generators import load_from_arguments, print_result
from bench.generators.transaction_lots import Kind, Producer
from bench.generators.transaction_lots import Load as LotsLoad
from bench.process import cpu_time
from bench.topics import Topic


class Load(msgspec.Struct, frozen=True):
    port: int
    broker_pid: int
    topic: Topic
    producers: int
    batches_in_lot: int
    records_in_batch: int
    record_bytes: int
    # For each kind.
    seconds: float
    warm_up_seconds: float = 1.0


class Compared(msgspec.Struct, frozen=True):
    plain: list[Pass]
    idempotent: list[Pass]
    transactions: list[Pass]


class Group:
    """The producers of one kind."""

    def __init__(self, load: Load, kind: Kind) -> None:
        self._pid = load.broker_pid
        lots = LotsLoad(
            load.port,
            load.broker_pid,
            load.topic,
            kind,
            load.producers,
            load.batches_in_lot,
            load.records_in_batch,
            load.record_bytes,
            load.seconds,
        )
        self._producers = [Producer(lots, number) for number in range(load.producers)]
        self._selector = selectors.DefaultSelector()
        for producer in self._producers:
            self._selector.register(producer.socket, selectors.EVENT_READ, producer)

    def write(self, seconds: float) -> Pass:
        before = self._lots()
        cpu = cpu_time(self._pid)
        began = time.perf_counter()
        for producer in self._producers:
            producer.start()
        self._pump(began + seconds)
        for producer in self._producers:
            producer.stop()
        while any(producer.is_busy for producer in self._producers):
            self._pump(time.perf_counter() + PASS_SECONDS)
        taken = time.perf_counter() - began
        lots = self._lots() - before
        return Pass(lots, taken / lots * 1e6, cpu_time(self._pid).since(cpu).total)

    def _lots(self) -> int:
        return sum(producer.lots for producer in self._producers)

    def _pump(self, until: float) -> None:
        while (left := until - time.perf_counter()) > 0 and any(producer.is_busy for producer in self._producers):
            for key, _ in self._selector.select(left):
                key.data.receive()


def run(load: Load) -> Compared:
    kinds = {kind.value: Group(load, kind).write for kind in Kind}
    return Compared(**take_turns(kinds, load.warm_up_seconds, load.seconds))


if __name__ == "__main__":
    print_result(run(load_from_arguments(Load)))
