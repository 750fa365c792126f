"""Transactions of our producer, against our broker and Apache Kafka: with and without KIP-890, and in two phases."""

from __future__ import annotations

import asyncio
import time

import pytest

from harness.server import ServerProcess
from tidelog import AsyncProducer, Consumer, Producer, TopicPartition
from tidelog.client.errors import IllegalTransactionState, ProducerFenced, TransactionFailed
from tidelog.model.ids import PartitionIndex, TopicName

SECONDS_MAX = 30


@pytest.fixture(params=["broker", "apache_kafka"])
def servers(request: pytest.FixtureRequest) -> str:
    server: ServerProcess = request.getfixturevalue(request.param)
    return server.bootstrap_servers


@pytest.fixture(params=["implicit", "explicit"])
def adding(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Partitions join a transaction by being written to, or by AddPartitionsToTxn as with older brokers."""
    if request.param == "explicit":
        monkeypatch.setattr("tidelog.client.aio.transactions.IMPLICIT_ADD_LEVEL", 99)
    return str(request.param)


def committed(servers: str, topic: str, count: int) -> list[bytes]:
    place = TopicPartition(TopicName(topic), PartitionIndex(0))
    found: list[bytes] = []
    end = time.monotonic() + SECONDS_MAX
    with Consumer(bootstrap_servers=servers, isolation_level="read_committed", fetch_max_wait_ms=100) as consumer:
        consumer.assign([place])
        consumer.seek(place, 0)
        while len(found) < count:
            assert time.monotonic() < end, f"{len(found)} of {count}"
            found += [record.value for record in consumer.poll(1)]
        found += [record.value for record in consumer.poll(0.3)]
    return found


def test_what_is_committed_is_read_and_what_is_aborted_is_not(servers: str, topic: str, adding: str) -> None:
    with Producer(bootstrap_servers=servers, transactional_id=topic) as producer:
        with pytest.raises(IllegalTransactionState):
            producer.send(topic, b"before init")
        producer.init_transactions()
        for number in range(6):
            producer.begin_transaction()
            for part in range(3):
                producer.send(topic, b"%d.%d" % (number, part), partition=0)
            if number % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
        with pytest.raises(RuntimeError), producer.transaction():
            producer.send(topic, b"left by an exception", partition=0)
            raise RuntimeError("the program changed its mind")
        with producer.transaction():
            producer.send(topic, b"last", partition=0)
    wanted = [b"%d.%d" % (number, part) for number in (0, 2, 4) for part in range(3)]
    assert committed(servers, topic, 10) == [*wanted, b"last"]


def test_offsets_become_valid_with_the_transaction(servers: str, topic: str, adding: str) -> None:
    source = TopicPartition(TopicName(topic), PartitionIndex(0))
    with (
        Producer(bootstrap_servers=servers, transactional_id=topic) as producer,
        Consumer(bootstrap_servers=servers, group_id=topic) as consumer,
    ):
        producer.init_transactions()
        with producer.transaction():
            producer.send(topic, b"1", partition=0)
            producer.send_offsets_to_transaction({source: 1}, topic)
        assert consumer.committed(source)[source].offset == 1
        with pytest.raises(RuntimeError), producer.transaction():
            producer.send_offsets_to_transaction({source: 2}, topic)
            raise RuntimeError
        assert consumer.committed(source)[source].offset == 1


def test_the_second_producer_of_an_id_ends_the_first(servers: str, topic: str, adding: str) -> None:
    with (
        Producer(bootstrap_servers=servers, transactional_id=topic) as first,
        Producer(bootstrap_servers=servers, transactional_id=topic) as second,
    ):
        first.init_transactions()
        first.begin_transaction()
        first.send(topic, b"from the first", partition=0).result(SECONDS_MAX)
        second.init_transactions()
        with second.transaction():
            second.send(topic, b"from the second", partition=0)
        first.send(topic, b"too late", partition=0)
        with pytest.raises(ProducerFenced):
            first.commit_transaction()
        with pytest.raises(ProducerFenced):
            first.begin_transaction()
    assert committed(servers, topic, 1) == [b"from the second"]


def test_a_batch_that_fails_fails_the_transaction_and_the_next_one_works(servers: str, topic: str, adding: str) -> None:
    with Producer(bootstrap_servers=servers, transactional_id=topic, max_request_size=10_000_000) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"small", partition=0).result(SECONDS_MAX)
        producer.send(topic, bytes(5_000_000), partition=0)
        with pytest.raises(TransactionFailed):
            producer.commit_transaction()
        with pytest.raises(TransactionFailed):
            producer.send(topic, b"not before an abort", partition=0)
        producer.abort_transaction()
        with producer.transaction():
            producer.send(topic, b"again", partition=0)
    assert committed(servers, topic, 1) == [b"again"]


def test_the_asyncio_front_does_the_same(servers: str, topic: str) -> None:
    async def use() -> None:
        async with AsyncProducer(bootstrap_servers=servers, transactional_id=topic) as producer:
            await producer.init_transactions()
            async with producer.transaction():
                await producer.send(topic, b"1", partition=0)
            with pytest.raises(RuntimeError):
                async with producer.transaction():
                    await producer.send(topic, b"2", partition=0)
                    raise RuntimeError
            async with producer.transaction():
                await producer.send(topic, b"3", partition=0)

    asyncio.run(asyncio.wait_for(use(), SECONDS_MAX))
    assert committed(servers, topic, 2) == [b"1", b"3"]


def test_a_prepared_transaction_is_decided_by_whoever_comes_next(start_broker: object, topic: str) -> None:
    assert callable(start_broker)
    server: ServerProcess = start_broker({"transaction.two.phase.commit.enable": "true"})
    settings = {
        "bootstrap.servers": server.bootstrap_servers,
        "transactional.id": topic,
        "transaction.two.phase.commit.enable": True,
    }
    first = Producer(settings)
    first.init_transactions()
    first.begin_transaction()
    first.send(topic, b"prepared", partition=0)
    prepared = first.prepare_transaction()
    with pytest.raises(IllegalTransactionState):
        first.send(topic, b"more", partition=0)
    # The process is gone: nothing is closed in order.
    first._closed = True

    with Producer(settings) as second:
        assert second.init_transactions(keep_prepared=True) == prepared
        second.complete_transaction(prepared)
        second.begin_transaction()
        second.send(topic, b"undecided", partition=0)
        other = second.prepare_transaction()
        assert other != prepared
        second.complete_transaction(prepared)
        with second.transaction():
            second.send(topic, b"last", partition=0)
    assert committed(server.bootstrap_servers, topic, 2) == [b"prepared", b"last"]
