"""librdkafka produces numbered records at a steady rate, idempotent and with acks=all, until asked to stop."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
from confluent_kafka import KafkaError, Message, Producer

from soak.generators import UntilAsked, history_path, work_from_arguments
from soak.history import Acked, Failed, HistoryWriter, Name, Sent, name_in, value_of

QUEUED_MAX = 20_000
FLUSH_SECONDS_MAX = 80.0


class Work(msgspec.Struct, frozen=True):
    bootstrap_servers: str
    topic: str
    partitions: int
    producer: str
    per_second: int
    history_folder: str
    settings: dict[str, str] = {}


def run(work: Work) -> None:
    until = UntilAsked()
    with history_path(Path(work.history_folder), work.producer).open("wb") as file:
        history = HistoryWriter(file)

        def delivered(error: KafkaError | None, message: Message) -> None:
            name = name_in(message.value())
            if error is not None:
                history.write(Failed(name.producer, name.number, str(error)))
            else:
                topic, partition, offset = message.topic(), message.partition(), message.offset()
                assert topic is not None and partition is not None and offset is not None, "it has been written"
                history.write(Acked(topic, partition, offset, *name))

        producer = Producer(
            {
                "bootstrap.servers": work.bootstrap_servers,
                "client.id": work.producer,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 5,
                "message.timeout.ms": 120_000,
                "queue.buffering.max.messages": QUEUED_MAX * 2,
                "log_level": 0,
                **work.settings,
            }
        )
        number = 0
        began = time.monotonic()
        while not until.asked:
            due = int((time.monotonic() - began) * work.per_second)
            while number < due and len(producer) < QUEUED_MAX:
                # Written before it is sent: a record in the log that is not in the history is invented.
                history.write(Sent(work.producer, number))
                value = value_of(Name(work.producer, number))
                producer.produce(work.topic, value, partition=number % work.partitions, on_delivery=delivered)
                number += 1
            producer.poll(0.01)
        left = producer.flush(FLUSH_SECONDS_MAX)
        if left:
            raise RuntimeError(f"{left} records were neither acknowledged nor given up")


if __name__ == "__main__":
    run(work_from_arguments(Work))
