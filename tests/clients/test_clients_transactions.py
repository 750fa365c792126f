"""confluent-kafka (librdkafka, the first protocol of transactions) against a running broker."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from harness.server import ServerProcess
from harness.waiting import wait_until

SECONDS_MAX = 30.0


@pytest.fixture
def two_partitions(broker: ServerProcess, topic: str) -> str:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(SECONDS_MAX)
    wait_until(lambda: topic in admin.list_topics(timeout=10).topics)
    return topic


def producer(broker: ServerProcess, transactional_id: str, **settings: object) -> Producer:
    made = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "transactional.id": transactional_id,
            "linger.ms": 0,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
    )
    made.init_transactions(SECONDS_MAX)
    return made


def write(transactional: Producer, topic: str, values: list[str]) -> None:
    for number, value in enumerate(values):
        transactional.produce(topic, value=value, partition=number % 2)


def read(broker: ServerProcess, topic: str, isolation: str = "read_committed") -> list[str]:
    """Everything that can be read now, up to the ends that the broker tells for the isolation level."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "reader",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in (0, 1)])
    values: list[str] = []
    ends = 0
    deadline = time.monotonic() + SECONDS_MAX
    while ends < 2 and time.monotonic() < deadline:
        message = consumer.poll(0.1)
        if message is None:
            continue
        if message.error() is not None:
            ends += 1
        else:
            values.append((message.value() or b"").decode())
    consumer.close()
    assert ends == 2, "the ends of the partitions were not reached in time"
    return sorted(values)


@pytest.fixture
def transactional(broker: ServerProcess, topic: str) -> Iterator[Producer]:
    yield producer(broker, topic)


@pytest.mark.req("J5")
def test_what_is_committed_is_read_and_what_is_aborted_is_not(
    broker: ServerProcess, two_partitions: str, transactional: Producer
) -> None:
    transactional.begin_transaction()
    write(transactional, two_partitions, ["a1", "a2", "a3"])
    transactional.commit_transaction(SECONDS_MAX)

    transactional.begin_transaction()
    write(transactional, two_partitions, ["b1", "b2"])
    transactional.flush(SECONDS_MAX)
    transactional.abort_transaction(SECONDS_MAX)

    transactional.begin_transaction()
    write(transactional, two_partitions, ["c1"])
    transactional.commit_transaction(SECONDS_MAX)

    assert read(broker, two_partitions) == ["a1", "a2", "a3", "c1"]
    assert read(broker, two_partitions, "read_uncommitted") == ["a1", "a2", "a3", "b1", "b2", "c1"]


@pytest.mark.req("J5")
def test_an_open_transaction_is_not_read_nor_what_comes_after_it(
    broker: ServerProcess, two_partitions: str, transactional: Producer
) -> None:
    transactional.begin_transaction()
    write(transactional, two_partitions, ["open"])
    transactional.flush(SECONDS_MAX)
    plain = Producer({"bootstrap.servers": broker.bootstrap_servers})
    write(plain, two_partitions, ["after", "elsewhere"])
    plain.flush(SECONDS_MAX)

    assert read(broker, two_partitions) == ["elsewhere"]
    assert read(broker, two_partitions, "read_uncommitted") == ["after", "elsewhere", "open"]

    transactional.commit_transaction(SECONDS_MAX)
    assert read(broker, two_partitions) == ["after", "elsewhere", "open"]


@pytest.mark.req("J5")
def test_a_second_producer_with_the_same_id_fences_the_first_and_aborts_what_it_left(
    broker: ServerProcess, two_partitions: str, transactional: Producer
) -> None:
    transactional.begin_transaction()
    write(transactional, two_partitions, ["zombie"])
    transactional.flush(SECONDS_MAX)

    successor = producer(broker, two_partitions)
    successor.begin_transaction()
    write(successor, two_partitions, ["successor"])
    successor.commit_transaction(SECONDS_MAX)

    with pytest.raises(KafkaException) as raised:
        transactional.commit_transaction(SECONDS_MAX)
    assert raised.value.args[0].fatal()
    assert read(broker, two_partitions) == ["successor"]


@pytest.mark.req("J5")
def test_offsets_are_committed_with_the_transaction_or_not_at_all(
    broker: ServerProcess, two_partitions: str, transactional: Producer
) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": two_partitions})
    consumer.subscribe([two_partitions])
    wait_until(lambda: (consumer.poll(0.1), len(consumer.assignment()) == 2)[1])
    partition = TopicPartition(two_partitions, 0, 7)

    transactional.begin_transaction()
    transactional.send_offsets_to_transaction([partition], consumer.consumer_group_metadata(), SECONDS_MAX)
    transactional.commit_transaction(SECONDS_MAX)
    assert consumer.committed([partition], SECONDS_MAX)[0].offset == 7

    transactional.begin_transaction()
    partition.offset = 9
    transactional.send_offsets_to_transaction([partition], consumer.consumer_group_metadata(), SECONDS_MAX)
    transactional.abort_transaction(SECONDS_MAX)
    assert consumer.committed([partition], SECONDS_MAX)[0].offset == 7
    consumer.close()


@pytest.mark.req("J5")
def test_a_transaction_that_is_left_open_is_aborted_after_its_timeout(
    broker: ServerProcess, two_partitions: str
) -> None:
    forgetful = producer(broker, two_partitions, transaction_timeout_ms=1_000)
    forgetful.begin_transaction()
    write(forgetful, two_partitions, ["forgotten"])
    forgetful.flush(SECONDS_MAX)
    plain = Producer({"bootstrap.servers": broker.bootstrap_servers})
    write(plain, two_partitions, ["after"])
    plain.flush(SECONDS_MAX)

    assert read(broker, two_partitions) == []
    wait_until(lambda: read(broker, two_partitions) == ["after"])


@pytest.mark.req("J5")
def test_a_longer_timeout_than_the_broker_allows_is_refused(broker: ServerProcess, topic: str) -> None:
    with pytest.raises(KafkaException) as raised:
        producer(broker, topic, transaction_timeout_ms=900_001)
    assert "INVALID_TRANSACTION_TIMEOUT" in str(raised.value) or "timeout" in str(raised.value)
