"""librdkafka, through confluent-kafka, reads one partition from its beginning to its end, assigned by hand."""

from __future__ import annotations

import msgspec
from confluent_kafka import Consumer, TopicPartition

from bench.generators import Measured, load_from_arguments, print_result
from bench.generators.window import Window
from bench.topics import Topic, records_in
from harness.server import HOST

RECORDS_AT_ONCE = 10_000
PATIENCE_SECONDS = 10.0


class Load(msgspec.Struct, frozen=True):
    port: int
    broker_pid: int
    topic: Topic


class Received(Measured, frozen=True):
    megabytes: float

    @property
    def megabytes_per_second(self) -> float:
        return self.megabytes / self.seconds

    @property
    def cpu_seconds_per_gigabyte(self) -> float:
        return self.broker_cpu_seconds / self.megabytes * 1e3


def run(load: Load) -> Received:
    expected = records_in(load.port, load.topic)
    consumer = Consumer(
        {
            "bootstrap.servers": f"{HOST}:{load.port}",
            "group.id": "bench",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            # Let librdkafka read ahead as far as it can; its defaults wait for the application.
            "fetch.message.max.bytes": 10 << 20,
            "queued.min.messages": 1_000_000,
            "queued.max.messages.kbytes": 1 << 20,
        }
    )
    consumer.list_topics(load.topic.name, timeout=30)
    window = Window(load.broker_pid)
    window.open()
    consumer.assign([TopicPartition(load.topic.name, 0, 0)])
    received = 0
    size = 0
    while received < expected:
        messages = consumer.consume(RECORDS_AT_ONCE, PATIENCE_SECONDS)
        if not messages:
            raise TimeoutError(f"{received} of {expected} records arrived")
        for message in messages:
            if (error := message.error()) is not None:
                raise RuntimeError(error.str())
            size += len(message)
        received += len(messages)
    measured = window.close()
    consumer.close()
    return Received(**measured, megabytes=size / 1e6)


if __name__ == "__main__":
    print_result(run(load_from_arguments(Load)))
