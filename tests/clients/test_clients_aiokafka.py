"""aiokafka against a running broker: topics, settings, records, positions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import (
    InvalidPartitionsError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
    for_code,
)
from drivers.aiokafka_driver import COMPRESSIONS, SECONDS_MAX, consume, consumer, produce, producer, to_record
from drivers.corpus import FIRST_TIMESTAMP_MS, Record, any_records

from harness.server import ServerProcess

RECORDS = any_records(100_000)
T = TypeVar("T")


def as_admin(broker: ServerProcess, work: Callable[[AIOKafkaAdminClient], Awaitable[T]]) -> T:
    """Run one piece of work with an admin client."""

    async def run() -> T:
        client = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
        await client.start()
        try:
            return await asyncio.wait_for(work(client), SECONDS_MAX)
        finally:
            await client.close()

    return asyncio.run(run())


def as_consumer(broker: ServerProcess, work: Callable[[AIOKafkaConsumer], Awaitable[T]], *places: TopicPartition) -> T:
    """Run one piece of work with a consumer that these partitions are assigned to."""

    async def run() -> T:
        async with consumer(broker.bootstrap_servers) as client:
            client.assign(list(places))
            return await asyncio.wait_for(work(client), SECONDS_MAX)

    return asyncio.run(run())


def create(broker: ServerProcess, topic: str, partitions: int = 1, **config: str) -> str:
    settings = {name.replace("_", "."): value for name, value in config.items()}

    async def work(admin: AIOKafkaAdminClient) -> None:
        answer = await admin.create_topics([NewTopic(topic, partitions, 1, topic_configs=settings)])
        assert [error[:2] for error in answer.topic_errors] == [(topic, 0)]
        await until(lambda: _is_ready(admin, topic, partitions))

    as_admin(broker, work)
    return topic


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    while not await condition():
        await asyncio.sleep(0.05)


@pytest.mark.req("A13", "A15")
def test_a_topic_is_created_listed_described_and_deleted(broker: ServerProcess, topic: str) -> None:
    create(broker, topic, partitions=3)

    async def work(admin: AIOKafkaAdminClient) -> None:
        assert topic in await admin.list_topics()
        (described,) = await admin.describe_topics([topic])
        assert sorted(part["partition"] for part in described["partitions"]) == [0, 1, 2]
        assert {part["leader"] for part in described["partitions"]} == {1}
        assert {tuple(part["isr"]) for part in described["partitions"]} == {(1,)}

        assert await _delete(admin, topic) == 0
        await until(lambda: _is_gone(admin, topic))
        assert for_code(await _delete(admin, topic)) is UnknownTopicOrPartitionError

    as_admin(broker, work)


@pytest.mark.parametrize(
    ("name", "partitions", "replicas", "error"),
    [
        ("bad name", 1, 1, 17),
        ("no-partitions", 0, 1, 37),
        ("two-replicas", 1, 2, 38),
    ],
)
def test_a_topic_that_cannot_be_is_refused(
    broker: ServerProcess, name: str, partitions: int, replicas: int, error: int
) -> None:
    async def work(admin: AIOKafkaAdminClient) -> None:
        answer = await admin.create_topics([NewTopic(name, partitions, replicas)])
        assert answer.topic_errors[0][:2] == (name, error)
        assert name not in await admin.list_topics()

    as_admin(broker, work)


def test_partitions_are_added_but_never_taken_away(broker: ServerProcess, topic: str) -> None:
    create(broker, topic)

    async def work(admin: AIOKafkaAdminClient) -> None:
        await admin.create_partitions({topic: NewPartitions(4)})
        await until(lambda: _is_ready(admin, topic, 4))
        with pytest.raises(InvalidPartitionsError):
            await admin.create_partitions({topic: NewPartitions(2)})

    as_admin(broker, work)


def test_settings_of_a_topic_are_described_and_replaced_as_a_whole(broker: ServerProcess, topic: str) -> None:
    create(broker, topic, retention_ms="7200000")

    async def settings(admin: AIOKafkaAdminClient) -> dict[str, str]:
        (answer,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
        (_code, _message, _type, _name, entries, *_) = answer.resources[0]
        return {entry[0]: entry[1] for entry in entries}

    async def work(admin: AIOKafkaAdminClient) -> None:
        assert (await settings(admin))["retention.ms"] == "7200000"

        change = ConfigResource(ConfigResourceType.TOPIC, topic, configs={"segment.bytes": "2097152"})
        (answer,) = await admin.alter_configs([change])
        assert answer.resources[0][0] == 0

        async def altered() -> bool:
            return (await settings(admin))["segment.bytes"] == "2097152"

        await until(altered)
        assert (await settings(admin))["retention.ms"] == "604800000", "what the call does not name is reset"

    as_admin(broker, work)


def test_the_cluster_describes_itself(broker: ServerProcess) -> None:
    cluster = as_admin(broker, lambda admin: admin.describe_cluster())

    assert [(node["node_id"], node["host"], node["port"]) for node in cluster["brokers"]] == [
        (1, "127.0.0.1", broker.port)
    ]
    assert cluster["controller_id"] == 1


@pytest.mark.req("A3", "A17", "A19")
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_100_000_records_of_every_shape_come_back_unchanged_over_restarts(
    broker: ServerProcess, topic: str, compression: str
) -> None:
    create(broker, topic)

    produce(broker.bootstrap_servers, topic, RECORDS[:50_000], compression=compression)
    broker.restart()
    produce(broker.bootstrap_servers, topic, RECORDS[50_000:], compression=compression)
    broker.restart()

    assert consume(broker.bootstrap_servers, topic, len(RECORDS)) == RECORDS


@pytest.mark.req("E1", "E2", "E3")
@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_records_arrive_with_every_level_of_acknowledgement(broker: ServerProcess, topic: str, acks: int | str) -> None:
    create(broker, topic)

    produce(broker.bootstrap_servers, topic, RECORDS[:2_000], acks=acks)

    assert consume(broker.bootstrap_servers, topic, 2_000) == RECORDS[:2_000]


@pytest.mark.req("J1")
def test_an_idempotent_producer_writes_each_record_once(broker: ServerProcess, topic: str) -> None:
    create(broker, topic)
    place = TopicPartition(topic, 0)

    produce(broker.bootstrap_servers, topic, RECORDS[:10_000], idempotent=True)
    broker.restart()
    produce(broker.bootstrap_servers, topic, RECORDS[10_000:20_000], idempotent=True)

    assert consume(broker.bootstrap_servers, topic, 20_000) == RECORDS[:20_000]
    assert as_consumer(broker, lambda client: client.end_offsets([place])) == {place: 20_000}


def test_a_batch_that_the_caller_fills_arrives_as_one(broker: ServerProcess, topic: str) -> None:
    create(broker, topic)

    async def run() -> int:
        async with producer(broker.bootstrap_servers) as client:
            batch = client.create_batch()
            for record in RECORDS[:50]:
                batch.append(
                    key=record.key, value=record.value, timestamp=record.timestamp_ms, headers=list(record.headers)
                )
            future = await client.send_batch(batch, topic, partition=0)
            offset: int = (await future).offset
            return offset

    assert asyncio.run(run()) == 0
    assert consume(broker.bootstrap_servers, topic, 50) == RECORDS[:50]


@pytest.mark.req("K6", "K7")
def test_a_consumer_seeks_by_offset(broker: ServerProcess, topic: str) -> None:
    create(broker, topic)
    produce(broker.bootstrap_servers, topic, RECORDS[:5_000])
    place = TopicPartition(topic, 0)

    async def work(client: AIOKafkaConsumer) -> None:
        for offset in (4_321, 0, 4_999):
            client.seek(place, offset)
            assert to_record(await client.getone(place)) == RECORDS[offset]
        await client.seek_to_beginning(place)
        assert await client.position(place) == 0
        await client.seek_to_end(place)
        assert await client.position(place) == 5_000

    as_consumer(broker, work, place)


@pytest.mark.req("B6", "K12")
def test_a_consumer_finds_offsets_by_time(broker: ServerProcess, topic: str) -> None:
    create(broker, topic)
    produce(broker.bootstrap_servers, topic, RECORDS[:10_000])
    place = TopicPartition(topic, 0)

    async def work(client: AIOKafkaConsumer) -> None:
        for number in (0, 1_234, 9_999):
            found = (await client.offsets_for_times({place: FIRST_TIMESTAMP_MS + number}))[place]
            assert (found.offset, found.timestamp) == (number, FIRST_TIMESTAMP_MS + number)
        assert (await client.offsets_for_times({place: FIRST_TIMESTAMP_MS + 10_000}))[place] is None
        assert await client.beginning_offsets([place]) == {place: 0}
        assert await client.end_offsets([place]) == {place: 10_000}

    as_consumer(broker, work, place)


def test_deleted_records_are_gone(broker: ServerProcess, topic: str) -> None:
    create(broker, topic)
    produce(broker.bootstrap_servers, topic, RECORDS[:1_000])
    place = TopicPartition(topic, 0)

    def delete(admin: AIOKafkaAdminClient) -> Awaitable[dict[TopicPartition, int]]:
        return admin.delete_records({place: RecordsToDelete(before_offset=400)})

    assert as_admin(broker, delete) == {place: 400}

    async def read_what_is_gone(client: AIOKafkaConsumer) -> None:
        client.seek(place, 5)
        with pytest.raises(OffsetOutOfRangeError):
            await client.getone(place)

    as_consumer(broker, read_what_is_gone, place)
    assert consume(broker.bootstrap_servers, topic, 600, offset=400) == RECORDS[400:1_000]


def test_a_record_larger_than_the_topic_allows_is_refused(broker: ServerProcess, topic: str) -> None:
    create(broker, topic, max_message_bytes="10000")

    with pytest.raises(MessageSizeTooLargeError):
        produce(broker.bootstrap_servers, topic, [Record(None, b"x" * 20_000, (), FIRST_TIMESTAMP_MS)])


def test_an_unknown_topic_is_created_on_first_use_when_the_broker_allows_it(broker: ServerProcess, topic: str) -> None:
    produce(broker.bootstrap_servers, topic, RECORDS[:10])

    assert consume(broker.bootstrap_servers, topic, 10) == RECORDS[:10]
    assert topic in as_admin(broker, lambda admin: admin.list_topics())


def test_an_unknown_topic_is_refused_when_the_broker_does_not_create_topics(
    start_broker: Callable[..., ServerProcess], topic: str
) -> None:
    strict = start_broker({"auto.create.topics.enable": "false"})

    async def send() -> None:
        async with producer(strict.bootstrap_servers, request_timeout_ms=2_000) as client:
            await client.send_and_wait(topic, b"lost")

    with pytest.raises((KafkaTimeoutError, UnknownTopicOrPartitionError)):
        asyncio.run(send())
    assert topic not in as_admin(strict, lambda admin: admin.list_topics())


async def _is_ready(admin: AIOKafkaAdminClient, topic: str, partitions: int) -> bool:
    if topic not in await admin.list_topics():
        return False
    (described,) = await admin.describe_topics([topic])
    return len(described["partitions"]) == partitions


async def _is_gone(admin: AIOKafkaAdminClient, topic: str) -> bool:
    return topic not in await admin.list_topics()


async def _delete(admin: AIOKafkaAdminClient, topic: str) -> int:
    answer: Any = await admin.delete_topics([topic])
    code: int = answer.topic_error_codes[0][1]
    return code
