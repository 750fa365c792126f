"""Kafka Streams' own word count with exactly_once_v2, killed and started again, on a broker that is killed as well.

Without a cache it writes every change of a count: each word's counts must be 1, 2, 3, … with nothing left out and
nothing twice.
"""

from __future__ import annotations

import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from harness.apache_kafka import java_command
from harness.server import ServerProcess
from harness.waiting import wait_until

INPUT, OUTPUT = "streams-plaintext-input", "streams-wordcount-output"
PARTITIONS = 2
LINES = 18_000
WORDS = ("all", "streams", "lead", "to", "kafka")
SECONDS_MAX = 120.0


class WordCount:
    """The example program of Kafka Streams."""

    def __init__(self, bootstrap_servers: str, folder: Path) -> None:
        properties = {
            "bootstrap.servers": bootstrap_servers,
            "processing.guarantee": "exactly_once_v2",
            "state.dir": folder / "state",
            "replication.factor": 1,
            "session.timeout.ms": 2_000,
            "heartbeat.interval.ms": 500,
            # Many small transactions.
            "commit.interval.ms": 50,
        }
        path = folder / "streams.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        self._command = java_command("org.apache.kafka.streams.examples.wordcount.WordCountDemo", str(path))
        self._log_path = folder / "streams.output"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log_path.open("ab") as output:
            self._process = subprocess.Popen(self._command, stdout=output, stderr=subprocess.STDOUT)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def log_tail(self) -> str:
        return self._log_path.read_text(errors="replace")[-3_000:]


class Counts:
    """What a reader of committed records has seen: for each word its counts, in order."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.by_word: dict[str, list[int]] = {}
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": "judge",
                "isolation.level": "read_committed",
                "reconnect.backoff.max.ms": 300,
            }
        )
        self._consumer.assign([TopicPartition(OUTPUT, partition, 0) for partition in range(PARTITIONS)])

    def read_until(self, is_enough: Callable[[], bool], program: WordCount) -> None:
        deadline = time.monotonic() + SECONDS_MAX
        while not is_enough():
            assert time.monotonic() < deadline, f"{self.by_word}\n{program.log_tail()}"
            for message in self._consumer.consume(1_000, 0.2):
                if message.error() is None:
                    word = (message.key() or b"").decode()
                    (count,) = struct.unpack(">q", message.value() or b"")
                    self.by_word.setdefault(word, []).append(count)

    def total(self) -> int:
        return sum(map(len, self.by_word.values()))


@pytest.mark.req("J5")
def test_kafka_streams_counts_every_word_exactly_once_however_often_it_and_the_broker_are_killed(
    start_broker: Callable[..., ServerProcess], tmp_path: Path
) -> None:
    broker = start_broker({"group.min.session.timeout.ms": "500", "group.initial.rebalance.delay.ms": "0"})
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for future in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in (INPUT, OUTPUT)]).values():
        future.result(30)
    wait_until(lambda: OUTPUT in admin.list_topics(timeout=10).topics)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "reconnect.backoff.max.ms": 300})
    program = WordCount(broker.bootstrap_servers, tmp_path)
    counts = Counts(broker.bootstrap_servers)
    program.start()
    victims = (program, broker, program, broker, program)
    lines_each = LINES // (len(victims) + 1)
    try:
        for number, victim in enumerate((*victims, None)):
            for line in range(lines_each):
                producer.produce(INPUT, " ".join(WORDS), str(line))
            assert producer.flush(60) == 0
            if victim is not None:
                # It has begun with these lines, and is far from done with them.
                counts.read_until(lambda begun=number * lines_each * len(WORDS): counts.total() > begun, program)
                victim.kill()
                victim.start()
        counts.read_until(lambda: counts.total() >= LINES * len(WORDS), program)
    finally:
        program.kill()
    assert counts.by_word == {word: list(range(1, LINES + 1)) for word in WORDS}
