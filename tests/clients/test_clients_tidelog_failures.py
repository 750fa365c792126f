"""Our client when things go wrong: a broker that does not answer, a full buffer under each policy, a program's end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from harness.server import ServerProcess
from tidelog import Consumer, Producer, TopicPartition
from tidelog.client.errors import BufferFull, ClientError, DeliveryExpired, RecordDropped
from tidelog.model.ids import PartitionIndex, TopicName

SECONDS_MAX = 30
BUFFER_BYTES = 100_000
VALUE = bytes(1_000)


@contextmanager
def silent(server: ServerProcess) -> Iterator[None]:
    """The broker's connections stay open, but nothing is answered."""
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


def values(server: ServerProcess, topic: str, count: int) -> list[bytes]:
    place = TopicPartition(TopicName(topic), PartitionIndex(0))
    found: list[bytes] = []
    end = time.monotonic() + SECONDS_MAX
    with Consumer(bootstrap_servers=server.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([place])
        while len(found) < count:
            assert time.monotonic() < end, f"{len(found)} of {count}"
            found += [record.value for record in consumer.poll(1)]
        assert consumer.position(place) == consumer.end_offsets(place)[place]
    return found


def full_producer(server: ServerProcess, topic: str, policy: str) -> Producer:
    producer = Producer(
        bootstrap_servers=server.bootstrap_servers,
        buffer_full=policy,
        buffer_memory=BUFFER_BYTES,
        batch_size=10_000,
        max_block_ms=300,
    )
    producer.send(topic, b"first", partition=0).result(SECONDS_MAX)
    return producer


@pytest.mark.req("H9")
@pytest.mark.parametrize("policy", ["block", "raise"])
def test_a_full_buffer_makes_the_sender_wait_or_fail(broker: ServerProcess, topic: str, policy: str) -> None:
    with full_producer(broker, topic, policy) as producer:
        sent = 0
        with silent(broker):
            began = time.monotonic()
            with pytest.raises(BufferFull):
                while True:
                    producer.send(topic, VALUE, partition=0)
                    sent += 1
            waited_s = time.monotonic() - began
            assert producer._lines.size_bytes <= BUFFER_BYTES
        assert (waited_s >= 0.3) == (policy == "block")
    assert 80 < sent < 100
    assert len(values(broker, topic, sent + 1)) == sent + 1


@pytest.mark.req("H9")
@pytest.mark.parametrize("policy", ["drop_newest", "drop_oldest", "clear"])
def test_a_full_buffer_lets_records_go_and_says_which(broker: ServerProcess, topic: str, policy: str) -> None:
    told: list[ClientError | None] = []
    with full_producer(broker, topic, policy) as producer:
        with silent(broker):
            deliveries = [
                producer.send(topic, b"%04d" % number + VALUE, partition=0, on_delivery=lambda _, e: told.append(e))
                for number in range(300)
            ]
            assert producer._lines.size_bytes <= BUFFER_BYTES
        producer.flush(SECONDS_MAX)
        gone = {number for number, delivery in enumerate(deliveries) if delivery.exception() is not None}
        assert all(isinstance(deliveries[number].exception(), RecordDropped) for number in gone)
    kept = [int(value[:4]) for value in values(broker, topic, 301 - len(gone))[1:]]
    assert sorted({*kept, *gone}) == list(range(300)) and not gone & set(kept)
    assert kept == sorted(kept)
    assert len(told) == 300 and sum(error is not None for error in told) == len(gone)
    if policy == "drop_newest":
        assert kept == list(range(len(kept)))
    else:
        # What was on its way could not be called back; of what waited, the newest stayed.
        assert kept[-1] == 299 and 150 not in kept


def test_a_record_that_is_never_acknowledged_fails_in_time_and_the_next_ones_are_written(
    broker: ServerProcess, topic: str
) -> None:
    with Producer(
        bootstrap_servers=broker.bootstrap_servers, delivery_timeout_ms=1_500, request_timeout_ms=500, linger_ms=0
    ) as producer:
        producer.send(topic, b"first", partition=0).result(SECONDS_MAX)
        with silent(broker):
            lost = [producer.send(topic, b"lost %d" % number, partition=0) for number in range(5)]
            began = time.monotonic()
            with pytest.raises(DeliveryExpired):
                lost[0].result(SECONDS_MAX)
            assert time.monotonic() - began < 10
            for delivery in lost:
                with pytest.raises(DeliveryExpired):
                    delivery.result(SECONDS_MAX)
        last = producer.send(topic, b"last", partition=0)
        assert last.result(SECONDS_MAX).offset >= 1
    found = values(broker, topic, 2)
    assert found[0] == b"first" and found[-1] == b"last"
    # Nobody knows which of the lost ones arrived, but none did twice.
    assert len(set(found)) == len(found)


PROGRAM = """
import sys
from tidelog import Producer
import tidelog.client.blocking.producer as blocking
blocking.EXIT_FLUSH_S = float(sys.argv[3])
producer = Producer(bootstrap_servers=sys.argv[1], linger_ms=600_000)
producer.send(sys.argv[2], b"known", partition=0)
producer.flush()
print("ready", flush=True)
sys.stdin.readline()
for number in range(500):
    producer.send(sys.argv[2], b"%d" % number, partition=0)
"""


def program(server: ServerProcess, topic: str, exit_flush_s: float) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-c", PROGRAM, server.bootstrap_servers, topic, str(exit_flush_s)]
    pipe = subprocess.PIPE
    running = subprocess.Popen(arguments, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    assert running.stdout is not None and running.stdout.readline() == "ready\n"
    return running


def test_a_program_that_ends_without_a_close_loses_nothing(broker: ServerProcess, topic: str) -> None:
    running = program(broker, topic, SECONDS_MAX)
    _, errors = running.communicate("go\n", timeout=SECONDS_MAX)
    assert (running.returncode, errors) == (0, "")
    assert values(broker, topic, 501)[1:] == [b"%d" % number for number in range(500)]


def test_a_program_that_cannot_deliver_at_its_end_says_so(broker: ServerProcess, topic: str) -> None:
    running = program(broker, topic, 1.0)
    with silent(broker):
        _, errors = running.communicate("go\n", timeout=SECONDS_MAX)
    assert "500 records were not delivered" in errors


def test_a_consumer_that_is_not_polled_holds_no_more_than_it_may(broker: ServerProcess, topic: str) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for _ in range(20_000):
            producer.send(topic, VALUE, partition=0)
    place = TopicPartition(TopicName(topic), PartitionIndex(0))
    limit = 500_000
    with Consumer(
        bootstrap_servers=broker.bootstrap_servers, max_partition_fetch_bytes=limit, auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([place])
        assert consumer.poll(SECONDS_MAX)
        time.sleep(1)
        held = sum(len(chunk.data) for chunk in consumer._reading.places[place].chunks)
        assert 0 < held <= 2 * (limit + 200_000)


def test_a_client_that_is_closed_leaves_no_thread_behind(broker: ServerProcess, topic: str) -> None:
    before = threading.active_count()
    for _ in range(5):
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            producer.send(topic, b"x")
        Consumer(bootstrap_servers=broker.bootstrap_servers).close()
    assert threading.active_count() <= before
