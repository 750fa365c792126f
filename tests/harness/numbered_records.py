"""Records with numbers from a librdkafka producer, and all that a consumer finds of them: what was acknowledged must be
there, once, where it was said to be.

Used by the tests that kill brokers and take disks away under them.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from typing import Final

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

PARTITIONS: Final = 4
SECONDS_MAX: Final = 120


class NumberedRecords:
    """A producer that sends the numbers 0, 1, 2, … and keeps those that were acknowledged."""

    def __init__(self, bootstrap_servers: str, topic: str, *, value_bytes: int = 0, **settings: object) -> None:
        self.acknowledged: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self.failed: list[str] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": True,
                "linger.ms": 2,
                "message.timeout.ms": SECONDS_MAX * 1000,
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.ms": 20,
                "log_level": 0,
                **settings,
            }
        )
        self._topic = topic
        self._value_bytes = value_bytes
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(SECONDS_MAX) == 0, "records were neither acknowledged nor refused"

    @property
    def count(self) -> int:
        """How many were acknowledged so far."""
        return sum(map(len, self.acknowledged.values()))

    @property
    def goes_on(self) -> bool:
        """Whether it still sends: a producer that may not go on ends its thread."""
        return self._thread.is_alive()

    def give_up(self) -> None:
        """Stop, and forget what is still under way."""
        self._stop.set()
        self._thread.join()
        self._producer.purge()
        self._producer.flush(10)

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            try:
                self._producer.produce(
                    self._topic,
                    str(number).ljust(self._value_bytes),
                    partition=number % PARTITIONS,
                    on_delivery=self._delivered,
                )
                number += 1
            except BufferError:
                self._producer.poll(0.05)
            self._producer.poll(0)
            if number % 50 == 0:
                time.sleep(0.002)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed.append(str(error))
        else:
            self.acknowledged[message.partition()].append((int(message.value()), message.offset()))


def read_all(bootstrap_servers: str, topic: str) -> dict[int, list[tuple[int, int]]]:
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "reader", "enable.auto.commit": False})
    found: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for partition in range(PARTITIONS):
        where = TopicPartition(topic, partition, 0)
        _, end = consumer.get_watermark_offsets(where, 30)
        consumer.assign([where])
        while len(found[partition]) < end:
            # It waits for all of them, or for so long.
            for message in consumer.consume(5_000, 0.2):
                assert message.error() is None, message.error()
                found[partition].append((int(message.value()), message.offset()))
    consumer.close()
    return found
