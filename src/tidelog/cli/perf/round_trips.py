"""Times that one record, or one transaction, takes from end to end: the next begins when the last has arrived."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tidelog.cli.failures import BadInput
from tidelog.cli.perf.latencies import Latencies
from tidelog.cli.perf.payloads import Payloads
from tidelog.client.blocking.consumer import Consumer
from tidelog.client.blocking.producer import Producer

ARRIVAL_S_MAX: Final = 60.0
MILLISECONDS: Final = 1000.0


@dataclass(slots=True)
class RoundTrips:
    """How long they took, and all of them together."""

    latencies: Latencies = field(default_factory=Latencies)
    elapsed_ms: float = 0.0

    @property
    def per_s(self) -> float:
        return self.latencies.count * MILLISECONDS / self.elapsed_ms if self.elapsed_ms else 0.0


def measure_end_to_end(
    topic: str,
    records: int,
    payloads: Payloads,
    producing: Mapping[str, Any],
    consuming: Mapping[str, Any],
    on_done: Callable[[int, float], None] = lambda *_: None,
) -> RoundTrips:
    """From `send` to the record in the hands of a consumer, one after the other. `on_done(number, milliseconds)`."""
    found = RoundTrips()
    with Producer({"linger.ms": 0, **producing}) as producer, Consumer(dict(consuming)) as consumer:
        partitions = producer.partitions_for(topic)
        consumer.assign(partitions)
        consumer.seek_to_end(*partitions)
        for partition in partitions:
            consumer.position(partition)
        began = time.perf_counter()
        for number in range(records):
            value = payloads.value(number)
            sent = time.perf_counter()
            producer.send(topic, value)
            _await(consumer, value)
            latency_ms = (time.perf_counter() - sent) * MILLISECONDS
            found.latencies.add(latency_ms)
            on_done(number, latency_ms)
        found.elapsed_ms = (time.perf_counter() - began) * MILLISECONDS
    return found


def _await(consumer: Consumer, value: bytes) -> None:
    deadline = time.perf_counter() + ARRIVAL_S_MAX
    while time.perf_counter() < deadline:
        records = consumer.poll(1.0)
        if records:
            if [record.value for record in records] != [value]:
                raise BadInput("Somebody else writes to the topic: what was read is not what was sent.")
            return
    raise BadInput(f"The record did not arrive within {ARRIVAL_S_MAX:g} s.")


def measure_transactions(
    topic: str,
    transactions: int,
    records_in_each: int,
    payloads: Payloads,
    producing: Mapping[str, Any],
    on_done: Callable[[int, float], None] = lambda *_: None,
) -> RoundTrips:
    """From the begin of a transaction to the coordinator's word that it is committed, one after the other."""
    found = RoundTrips()
    with Producer(dict(producing)) as producer:
        producer.partitions_for(topic)
        producer.init_transactions()
        began = time.perf_counter()
        for number in range(transactions):
            begun = time.perf_counter()
            with producer.transaction():
                for record in range(records_in_each):
                    producer.send(topic, payloads.value(number * records_in_each + record))
            latency_ms = (time.perf_counter() - begun) * MILLISECONDS
            found.latencies.add(latency_ms)
            on_done(number, latency_ms)
        found.elapsed_ms = (time.perf_counter() - began) * MILLISECONDS
    return found
