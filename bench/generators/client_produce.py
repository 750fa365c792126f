"""One Python client produces records of one size to one partition as fast as it can, in the way its users write it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec

from bench.generators import Measured, load_from_arguments, print_result
from bench.generators.window import Window
from bench.topics import Topic, records_in
from harness.server import HOST

FLUSH_SECONDS_MAX: Final = 120
LINGER_MS: Final = 5
QUEUED_RECORDS_MAX: Final = 200_000
ROWS_AT_ONCE: Final = 100_000


class Load(msgspec.Struct, frozen=True):
    port: int
    broker_pid: int
    topic: Topic
    client: str
    records: int
    record_bytes: int

    @property
    def servers(self) -> str:
        return f"{HOST}:{self.port}"


class Sent(Measured, frozen=True):
    records: int

    @property
    def records_per_second(self) -> float:
        return self.records / self.seconds


Send = Callable[[Load, bytes, Window], None]


def tidelog_arrow(load: Load, value: bytes, window: Window) -> None:
    import numpy as np
    import pyarrow as pa  # type: ignore[import-untyped]

    import tidelog

    rows = min(ROWS_AT_ONCE, load.records)
    bounds = np.arange(rows + 1, dtype=np.int32) * load.record_bytes
    column = pa.Array.from_buffers(pa.binary(), rows, [None, pa.py_buffer(bounds), pa.py_buffer(value * rows)])
    table = pa.table({"value": column})
    with tidelog.Producer(bootstrap_servers=load.servers, acks=1) as producer:
        # Everything that is loaded at first use is loaded; these rows are the first of those that are counted.
        producer.send_table(load.topic.name, table.slice(0, 1), partition=0).result(FLUSH_SECONDS_MAX)
        window.open()
        for start in range(1, load.records, rows):
            producer.send_table(load.topic.name, table.slice(0, min(rows, load.records - start)), partition=0)
        producer.flush(FLUSH_SECONDS_MAX)


def tidelog_single(load: Load, value: bytes, window: Window) -> None:
    import tidelog

    with tidelog.Producer(bootstrap_servers=load.servers, acks=1, linger_ms=LINGER_MS) as producer:
        producer.partitions_for(load.topic.name)
        window.open()
        for _ in range(load.records):
            producer.send(load.topic.name, value, partition=0)
        producer.flush(FLUSH_SECONDS_MAX)


def confluent(load: Load, value: bytes, window: Window) -> None:
    from confluent_kafka import Producer

    producer = Producer(_librdkafka(load))
    producer.list_topics(load.topic.name, timeout=30)
    window.open()
    for number in range(load.records):
        while True:
            try:
                producer.produce(load.topic.name, value, partition=0)
                break
            except BufferError:
                producer.poll(0.01)
        if number % 1000 == 0:
            producer.poll(0)
    producer.flush(FLUSH_SECONDS_MAX)


def confluent_batch(load: Load, value: bytes, window: Window) -> None:
    from confluent_kafka import Producer

    producer = Producer(_librdkafka(load))
    producer.list_topics(load.topic.name, timeout=30)
    records = [{"value": value}] * 5000
    window.open()
    produced = 0
    while produced < load.records:
        if len(producer) > QUEUED_RECORDS_MAX:
            producer.poll(0.001)
            continue
        produced += producer.produce_batch(load.topic.name, records[: load.records - produced], partition=0)
    producer.flush(FLUSH_SECONDS_MAX)


def _librdkafka(load: Load) -> dict[str, str | int]:
    return {
        "bootstrap.servers": load.servers,
        "acks": "1",
        "linger.ms": LINGER_MS,
        "queue.buffering.max.messages": QUEUED_RECORDS_MAX * 2,
        "queue.buffering.max.kbytes": 1 << 20,
    }


def kafka_python(load: Load, value: bytes, window: Window) -> None:
    from kafka import KafkaProducer  # type: ignore[import-untyped]

    producer = KafkaProducer(bootstrap_servers=load.servers, acks=1, linger_ms=LINGER_MS)
    producer.partitions_for(load.topic.name)
    window.open()
    for _ in range(load.records):
        producer.send(load.topic.name, value, partition=0)
    producer.flush(FLUSH_SECONDS_MAX)
    producer.close()


def aiokafka(load: Load, value: bytes, window: Window) -> None:
    from aiokafka import AIOKafkaProducer  # type: ignore[import-untyped]

    async def send() -> None:
        async with AIOKafkaProducer(bootstrap_servers=load.servers, acks=1, linger_ms=LINGER_MS) as producer:
            await producer.partitions_for(load.topic.name)
            window.open()
            for _ in range(load.records):
                await producer.send(load.topic.name, value, partition=0)
            await producer.flush()

    asyncio.run(send())


CLIENTS: Final[dict[str, Send]] = {
    "tidelog-arrow": tidelog_arrow,
    "tidelog": tidelog_single,
    "confluent": confluent,
    "confluent-batch": confluent_batch,
    "kafka-python": kafka_python,
    "aiokafka": aiokafka,
}


def run(load: Load) -> Sent:
    value = bytes(index * 31 % 251 for index in range(load.record_bytes))
    before = records_in(load.port, load.topic)
    window = Window(load.broker_pid)
    CLIENTS[load.client](load, value, window)
    measured = window.close()
    added = records_in(load.port, load.topic) - before
    if added != load.records:
        raise RuntimeError(f"{load.client} was to write {load.records} records, {added} are in the log")
    return Sent(**measured, records=load.records)


if __name__ == "__main__":
    print_result(run(load_from_arguments(Load)))
