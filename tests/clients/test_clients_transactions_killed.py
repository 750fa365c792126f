"""Consume, transform, produce while the clients and the broker are killed: the output is the input, exactly once.

The same run with confluent-kafka (the first protocol of transactions) and with Apache Kafka's own transactional copier
(the second). Clients die by `kill -9` in the middle of transactions, brokers in the middle of writes.
"""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from harness.apache_kafka import java_command
from harness.server import ServerProcess
from harness.waiting import wait_until

COPIER = Path(__file__).parent / "drivers" / "confluent_copier.py"
SECONDS_MAX = 240.0
LOT = 500
# What a supervisor waits for a sign of life. Java needs its time to start, and much of it on a busy machine.
PATIENCE_SECONDS = 20.0
GIVEN_UP = -1


def fill(broker: ServerProcess, topic: str, count: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for future in admin.create_topics([NewTopic(topic, 1, 1), NewTopic(f"{topic}.copy", 1, 1)]).values():
        future.result(30)
    wait_until(lambda: f"{topic}.copy" in admin.list_topics(timeout=10).topics)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "queue.buffering.max.messages": 1_000_000})
    for number in range(count):
        producer.produce(topic, str(number), partition=0)
    assert producer.flush(60) == 0


def committed_values(broker: ServerProcess, topic: str) -> list[int]:
    """All that a reader of committed records finds, up to the end."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "judge",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[int] = []
    deadline = time.monotonic() + SECONDS_MAX
    while time.monotonic() < deadline:
        for message in consumer.consume(10_000, 0.5):
            if message.error() is not None:
                consumer.close()
                return values
            values.append(int(message.value() or b"-1"))
    raise AssertionError("the end of the copy was not reached in time")


class Copier:
    """A copying program that prints a line for each lot."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.lots = 0
        self.progressed = time.monotonic()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for _ in self._process.stdout:
            self.lots += 1
            self.progressed = time.monotonic()

    def ended_with(self) -> int | None:
        return self._process.poll()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()


def run_and_kill(broker: ServerProcess, command: list[str], *, lots: int, client_kills: int, broker_kills: int) -> None:
    """Copy to the end. Every few lots, at a random moment after one, the copier or the broker is killed."""
    dice = random.Random(7)
    victims = ["client"] * client_kills + ["broker"] * broker_kills
    dice.shuffle(victims)
    # The copy goes on during the moment: leave room for that.
    lots_between = lots // (4 * len(victims))
    copier = Copier(command)
    deadline = time.monotonic() + SECONDS_MAX
    last_kill = 0
    try:
        while True:
            assert time.monotonic() < deadline, f"the copy was not finished in time; {len(victims)} kills were missing"
            time.sleep(0.002)
            code = copier.ended_with()
            if code is None and time.monotonic() - copier.progressed > PATIENCE_SECONDS:
                copier.kill()
                code = GIVEN_UP
            if code is not None:
                assert not (victims and code == 0), f"the copy was finished before {len(victims)} of the kills"
                if code == 0:
                    return
                # It has given up, or hangs, since the broker was away: the next one goes on.
                copier = Copier(command)
                last_kill = 0
            elif victims and copier.lots - last_kill >= lots_between:
                time.sleep(dice.uniform(0, 0.02))
                if victims.pop() == "broker":
                    broker.kill()
                    broker.start()
                    copier.progressed = time.monotonic()
                    last_kill = copier.lots
                else:
                    copier.kill()
                    copier = Copier(command)
                    last_kill = 0
    finally:
        copier.kill()


@pytest.mark.req("J5")
def test_a_copy_with_confluent_kafka_is_exactly_once_however_often_client_and_broker_are_killed(
    broker: ServerProcess, topic: str
) -> None:
    count = 100_000
    fill(broker, topic, count)
    command = [
        sys.executable,
        str(COPIER),
        broker.bootstrap_servers,
        topic,
        f"{topic}.copy",
        f"copier of {topic}",
        str(LOT),
    ]
    run_and_kill(broker, command, lots=count // LOT, client_kills=10, broker_kills=5)
    assert committed_values(broker, f"{topic}.copy") == list(range(count))


@pytest.mark.req("J5")
def test_a_copy_with_apache_kafkas_client_is_exactly_once_however_often_client_and_broker_are_killed(
    broker: ServerProcess, topic: str
) -> None:
    count = 100_000
    fill(broker, topic, count)
    command = java_command(
        "org.apache.kafka.tools.TransactionalMessageCopier",
        *("--broker-list", broker.bootstrap_servers),
        *("--input-topic", topic, "--input-partition", "0", "--output-topic", f"{topic}.copy"),
        *("--consumer-group", topic, "--transactional-id", topic),
        *("--transaction-size", str(LOT), "--use-group-metadata"),
        # It asks for its position before it takes over its id, and so waits for what it left open to time out.
        *("--transaction-timeout", "3000"),
    )
    run_and_kill(broker, command, lots=count // LOT, client_kills=10, broker_kills=5)
    assert committed_values(broker, f"{topic}.copy") == list(range(count))
