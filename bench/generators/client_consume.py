"""One Python client reads a partition from its beginning, assigned by hand, in the way its users write it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import msgspec

from bench.generators import Measured, load_from_arguments, print_result
from bench.generators.window import Window
from bench.topics import Topic
from harness.server import HOST

PATIENCE_S: Final = 10.0
RECORDS_AT_ONCE: Final = 10_000


class Load(msgspec.Struct, frozen=True):
    port: int
    broker_pid: int
    topic: Topic
    client: str
    # At least so many are read; there must be as many.
    records: int

    @property
    def servers(self) -> str:
        return f"{HOST}:{self.port}"


class Received(Measured, frozen=True):
    records: int

    @property
    def records_per_second(self) -> float:
        return self.records / self.seconds


# Reads, and says how many records there were.
Read = Callable[[Load, Window], int]


def tidelog_arrow(load: Load, window: Window) -> int:
    import tidelog.client.arrow_poll  # noqa: F401  What is loaded at first use is loaded.

    return _tidelog(load, window, lambda consumer: consumer.poll_arrow(PATIENCE_S).num_rows)


def tidelog_records(load: Load, window: Window) -> int:
    return _tidelog(load, window, lambda consumer: len(consumer.poll(PATIENCE_S, RECORDS_AT_ONCE)))


def _tidelog(load: Load, window: Window, poll: Callable[[Any], int]) -> int:
    import tidelog

    with tidelog.Consumer(bootstrap_servers=load.servers, auto_offset_reset="earliest") as consumer:
        window.open()
        consumer.assign([tidelog.TopicPartition(load.topic.name, 0)])  # type: ignore[arg-type]
        received = 0
        while received < load.records:
            found = poll(consumer)
            if not found:
                raise TimeoutError(f"{received} of {load.records} records arrived")
            received += found
    return received


def confluent(load: Load, window: Window) -> int:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": load.servers,
            "group.id": "bench",
            "enable.auto.commit": False,
            "fetch.message.max.bytes": 10 << 20,
            "queued.min.messages": 1_000_000,
            "queued.max.messages.kbytes": 1 << 20,
        }
    )
    consumer.list_topics(load.topic.name, timeout=30)
    window.open()
    consumer.assign([TopicPartition(load.topic.name, 0, 0)])
    received = 0
    while received < load.records:
        messages = consumer.consume(RECORDS_AT_ONCE, PATIENCE_S)
        if not messages:
            raise TimeoutError(f"{received} of {load.records} records arrived")
        received += len(messages)
    return received


def kafka_python(load: Load, window: Window) -> int:
    from kafka import KafkaConsumer, TopicPartition  # type: ignore[import-untyped]

    consumer = KafkaConsumer(bootstrap_servers=load.servers, auto_offset_reset="earliest", enable_auto_commit=False)
    consumer.partitions_for_topic(load.topic.name)
    window.open()
    consumer.assign([TopicPartition(load.topic.name, 0)])
    received = 0
    while received < load.records:
        found = consumer.poll(PATIENCE_S * 1000, RECORDS_AT_ONCE)
        received += sum(map(len, found.values()))
    consumer.close()
    return received


def aiokafka(load: Load, window: Window) -> int:
    from aiokafka import AIOKafkaConsumer, TopicPartition  # type: ignore[import-untyped]

    async def read() -> int:
        async with AIOKafkaConsumer(bootstrap_servers=load.servers, auto_offset_reset="earliest") as consumer:
            window.open()
            consumer.assign([TopicPartition(load.topic.name, 0)])
            received = 0
            while received < load.records:
                found = await consumer.getmany(timeout_ms=int(PATIENCE_S * 1000), max_records=RECORDS_AT_ONCE)
                received += sum(map(len, found.values()))
            return received

    return asyncio.run(read())


CLIENTS: Final[dict[str, Read]] = {
    "tidelog-arrow": tidelog_arrow,
    "tidelog": tidelog_records,
    "confluent": confluent,
    "kafka-python": kafka_python,
    "aiokafka": aiokafka,
}


def run(load: Load) -> Received:
    window = Window(load.broker_pid)
    received = CLIENTS[load.client](load, window)
    return Received(**window.close(), records=received)


if __name__ == "__main__":
    print_result(run(load_from_arguments(Load)))
