"""kill -9 under load: librdkafka producers go on through crashes, and every acknowledged record is there."""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from harness.server import ServerProcess, StartBroker

KILLS = 20
PARTITIONS = 4
SECONDS_MAX = 120
SEED = 20


class NumberedRecords:
    """A producer that sends the numbers 0, 1, 2, … and keeps those that were acknowledged."""

    def __init__(self, bootstrap_servers: str, topic: str, **settings: object) -> None:
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
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(SECONDS_MAX) == 0, "records were neither acknowledged nor refused"

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            try:
                self._producer.produce(
                    self._topic, str(number), partition=number % PARTITIONS, on_delivery=self._delivered
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
            for message in consumer.consume(5_000, 10):
                assert message.error() is None, message.error()
                found[partition].append((int(message.value()), message.offset()))
    consumer.close()
    return found


def crash_repeatedly(broker: ServerProcess, kills: int) -> None:
    chance = random.Random(SEED)
    for _ in range(kills):
        time.sleep(chance.uniform(0.05, 0.8))
        broker.kill()
        broker.start()


@pytest.mark.req("E9", "C9", "J4", "A7")
@pytest.mark.parametrize("profile", ["page cache", "synced first"])
def test_no_acknowledged_record_is_lost_doubled_or_moved_by_crashes(start_broker: StartBroker, profile: str) -> None:
    broker = start_broker({"log.flush.interval.messages": "1"} if profile == "synced first" else {})
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic("numbers", PARTITIONS, 1)])["numbers"].result(30)
    records = NumberedRecords(broker.bootstrap_servers, "numbers")

    records.start()
    crash_repeatedly(broker, KILLS if profile == "page cache" else KILLS // 4)
    records.finish()

    stored = read_all(broker.bootstrap_servers, "numbers")
    assert not records.failed
    assert sum(map(len, records.acknowledged.values())) > 1_000
    for partition in range(PARTITIONS):
        # Order, offsets and number: what was acknowledged is exactly what is there.
        assert stored[partition] == records.acknowledged[partition]
    assert "Traceback" not in broker.log()
