"""librdkafka, through confluent-kafka, produces records of one size to one partition as fast as it can."""

from __future__ import annotations

import msgspec
from confluent_kafka import Producer

from bench.generators import Measured, load_from_arguments, print_result
from bench.generators.window import Window
from bench.topics import Topic, records_in
from harness.server import HOST

RECORDS_AT_ONCE = 5_000
QUEUED_RECORDS_MAX = 200_000
FLUSH_SECONDS_MAX = 120


class Load(msgspec.Struct, frozen=True):
    port: int
    broker_pid: int
    topic: Topic
    records: int
    record_bytes: int
    acks: str = "1"


class Sent(Measured, frozen=True):
    megabytes: float

    @property
    def megabytes_per_second(self) -> float:
        return self.megabytes / self.seconds

    @property
    def cpu_seconds_per_gigabyte(self) -> float:
        return self.broker_cpu_seconds / self.megabytes * 1e3


def run(load: Load) -> Sent:
    producer = Producer(
        {
            "bootstrap.servers": f"{HOST}:{load.port}",
            "acks": load.acks,
            "linger.ms": 5,
            "queue.buffering.max.messages": QUEUED_RECORDS_MAX * 2,
            "queue.buffering.max.kbytes": 1 << 20,
        }
    )
    producer.list_topics(load.topic.name, timeout=30)
    before = records_in(load.port, load.topic)
    value = bytes(index * 31 % 251 for index in range(load.record_bytes))
    records = [{"value": value}] * RECORDS_AT_ONCE
    window = Window(load.broker_pid)
    window.open()
    produced = 0
    while produced < load.records:
        if len(producer) > QUEUED_RECORDS_MAX:
            producer.poll(0.001)
            continue
        count = min(RECORDS_AT_ONCE, load.records - produced)
        produced += producer.produce_batch(load.topic.name, records[:count], partition=0)
    left = producer.flush(FLUSH_SECONDS_MAX)
    measured = window.close()
    added = records_in(load.port, load.topic) - before
    if left or added != load.records:
        raise RuntimeError(f"{load.records} records were produced, {added} are in the log")
    return Sent(**measured, megabytes=load.records * load.record_bytes / 1e6)


if __name__ == "__main__":
    print_result(run(load_from_arguments(Load)))
