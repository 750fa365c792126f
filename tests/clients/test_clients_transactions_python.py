"""The transactional producers of aiokafka and kafka-python against a running broker."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from aiokafka.errors import ProducerFenced
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonTopicPartition
from kafka.errors import ProducerFencedError
from kafka.structs import OffsetAndMetadata

from harness.server import ServerProcess
from harness.waiting import wait_until

SECONDS_MAX = 30.0


@pytest.fixture
def created(broker: ServerProcess, topic: str) -> str:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(SECONDS_MAX)
    wait_until(lambda: topic in admin.list_topics(timeout=10).topics)
    return topic


def committed_offset(broker: ServerProcess, group: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    (found,) = consumer.committed([TopicPartition(topic, 0)], SECONDS_MAX)
    consumer.close()
    offset: int = found.offset
    return offset


# aiokafka


async def aio_producer(broker: ServerProcess, transactional_id: str) -> AIOKafkaProducer:
    producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers, transactional_id=transactional_id)
    await producer.start()
    return producer


async def aio_read(broker: ServerProcess, topic: str, isolation: str) -> list[bytes]:
    consumer = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap_servers, isolation_level=isolation)
    await consumer.start()
    partition = AioTopicPartition(topic, 0)
    consumer.assign([partition])
    await consumer.seek_to_beginning(partition)
    end = (await consumer.end_offsets([partition]))[partition]
    values = []
    deadline = asyncio.get_running_loop().time() + SECONDS_MAX
    while await consumer.position(partition) < end and asyncio.get_running_loop().time() < deadline:
        for batch in (await consumer.getmany(timeout_ms=200)).values():
            values += [record.value for record in batch]
    await consumer.stop()
    return values


@pytest.mark.req("J5")
def test_aiokafka_commits_aborts_and_reads_only_what_is_committed(broker: ServerProcess, created: str) -> None:
    async def run() -> tuple[list[bytes], list[bytes]]:
        producer = await aio_producer(broker, created)
        async with producer.transaction():
            await producer.send_and_wait(created, b"a")
        with pytest.raises(ValueError, match="changed my mind"):
            async with producer.transaction():
                await producer.send_and_wait(created, b"aborted")
                raise ValueError("changed my mind")
        async with producer.transaction():
            await producer.send_and_wait(created, b"b")
            await producer.send_offsets_to_transaction({AioTopicPartition(created, 0): 3}, f"group of {created}")
        await producer.stop()
        return await aio_read(broker, created, "read_committed"), await aio_read(broker, created, "read_uncommitted")

    committed, everything = asyncio.run(run())
    assert committed == [b"a", b"b"]
    assert everything == [b"a", b"aborted", b"b"]
    assert committed_offset(broker, f"group of {created}", created) == 3


@pytest.mark.req("J5")
def test_aiokafka_is_fenced_by_a_second_producer_with_its_id(broker: ServerProcess, created: str) -> None:
    async def run() -> list[bytes]:
        zombie = await aio_producer(broker, created)
        await zombie.begin_transaction()
        await zombie.send_and_wait(created, b"zombie")
        successor = await aio_producer(broker, created)
        async with successor.transaction():
            await successor.send_and_wait(created, b"successor")
        with pytest.raises(ProducerFenced):
            await zombie.commit_transaction()
        await successor.stop()
        await zombie.stop()
        return await aio_read(broker, created, "read_committed")

    assert asyncio.run(run()) == [b"successor"]


# kafka-python


def python_producer(broker: ServerProcess, transactional_id: str) -> KafkaProducer:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, transactional_id=transactional_id)
    producer.init_transactions()
    return producer


def python_read(broker: ServerProcess, topic: str, isolation: str) -> list[bytes]:
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap_servers, isolation_level=isolation)
    partition = PythonTopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    end = consumer.end_offsets([partition])[partition]
    values: list[bytes] = []
    while consumer.position(partition) < end:
        for batch in consumer.poll(timeout_ms=200).values():
            values += [record.value for record in batch]
    consumer.close()
    return values


@pytest.mark.req("J5")
def test_kafka_python_commits_aborts_and_reads_only_what_is_committed(broker: ServerProcess, created: str) -> None:
    producer = python_producer(broker, created)
    producer.begin_transaction()
    producer.send(created, b"a")
    producer.commit_transaction()
    producer.begin_transaction()
    producer.send(created, b"aborted").get(SECONDS_MAX)
    producer.abort_transaction()
    producer.begin_transaction()
    producer.send(created, b"b")
    offsets = {PythonTopicPartition(created, 0): OffsetAndMetadata(3, "", -1)}
    producer.send_offsets_to_transaction(offsets, f"group of {created}")
    producer.commit_transaction()
    producer.close()

    assert python_read(broker, created, "read_committed") == [b"a", b"b"]
    assert python_read(broker, created, "read_uncommitted") == [b"a", b"aborted", b"b"]
    assert committed_offset(broker, f"group of {created}", created) == 3


@pytest.mark.req("J5")
def test_kafka_python_is_fenced_by_a_second_producer_with_its_id(broker: ServerProcess, created: str) -> None:
    zombie = python_producer(broker, created)
    zombie.begin_transaction()
    zombie.send(created, b"zombie").get(SECONDS_MAX)
    successor = python_producer(broker, created)
    successor.begin_transaction()
    successor.send(created, b"successor")
    successor.commit_transaction()
    with pytest.raises(ProducerFencedError):
        zombie.commit_transaction()
    successor.close()
    zombie.close(timeout=1)
    assert python_read(broker, created, "read_committed") == [b"successor"]
