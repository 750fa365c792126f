"""Where members of a group read: commits by hand and by themselves, seeking back to process again, the newest."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioPlace
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, Message, TopicPartition
from drivers.topics import committed, create_topic, fill
from kafka import KafkaConsumer
from kafka import TopicPartition as PythonPlace
from kafka.structs import OffsetAndMetadata

from harness.java import JavaTools
from harness.server import ServerProcess
from harness.waiting import wait_until

SECONDS_MAX = 40
SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "4"}


@pytest.fixture(scope="module")
def server(start_broker: Callable[..., ServerProcess]) -> ServerProcess:
    return start_broker(SETTINGS)


@pytest.fixture(scope="module")
def tools(server: ServerProcess) -> JavaTools:
    return JavaTools(server.bootstrap_servers)


def confluent(server: ServerProcess, topic: str, **options: Any) -> Consumer:
    config = {
        "bootstrap.servers": server.bootstrap_servers,
        "group.id": topic,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    client = Consumer({**config, **options})
    client.subscribe([topic])
    return client


def take(client: Consumer, count: int) -> list[Message]:
    """The next messages, exactly so many."""
    messages: list[Message] = []
    while len(messages) < count:
        found = client.consume(count - len(messages), timeout=SECONDS_MAX)
        assert found, f"{len(messages)} of {count} messages came"
        assert all(message.error() is None for message in found)
        messages += found
    return messages


@pytest.mark.req("K6", "K7", "K8", "K11")
def test_confluent_goes_on_from_its_commit_and_processes_again_what_it_seeks(server: ServerProcess, topic: str) -> None:
    create_topic(server.bootstrap_servers, topic)
    fill(server.bootstrap_servers, topic, 1, 1_000)
    first = confluent(server, topic)
    take(first, 600)
    first.commit(offsets=[TopicPartition(topic, 0, 400, metadata="by hand")], asynchronous=False)
    first.close()

    second = confluent(server, topic)
    assert [message.offset() for message in take(second, 600)] == list(range(400, 1_000))
    second.seek(TopicPartition(topic, 0, OFFSET_BEGINNING))
    assert [message.offset() for message in take(second, 1_000)] == list(range(1_000))
    second.seek(TopicPartition(topic, 0, OFFSET_END))
    assert second.poll(1) is None
    fill(server.bootstrap_servers, topic, 1, 1, first=1_000)
    assert [message.offset() for message in take(second, 1)] == [1_000]

    # Seeking moves only the one who seeks: what is committed stays until somebody commits.
    (kept,) = second.committed([TopicPartition(topic, 0)], timeout=SECONDS_MAX)
    assert (kept.offset, kept.metadata) == (400, "by hand")
    second.commit(asynchronous=False)
    assert committed(server.bootstrap_servers, topic, topic, 1) == {0: 1_001}
    second.close()


@pytest.mark.req("K6", "K7", "K11", "K12")
def test_kafka_python_goes_on_from_its_commit_and_seeks_by_offset_and_time(server: ServerProcess, topic: str) -> None:
    create_topic(server.bootstrap_servers, topic)
    fill(server.bootstrap_servers, topic, 1, 500)
    place = PythonPlace(topic, 0)

    def member() -> KafkaConsumer:
        return KafkaConsumer(
            topic,
            bootstrap_servers=server.bootstrap_servers,
            group_id=topic,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            consumer_timeout_ms=SECONDS_MAX * 1000,
        )

    first = member()
    assert [next(first).offset for _ in range(300)] == list(range(300))
    first.commit({place: OffsetAndMetadata(300, "three hundred", -1)})
    first.close()

    second = member()
    assert [next(second).offset for _ in range(200)] == list(range(300, 500))
    assert second.committed(place, metadata=True).metadata == "three hundred"
    second.seek_to_beginning(place)
    oldest = next(second)
    assert oldest.offset == 0
    found = second.offsets_for_times({place: oldest.timestamp})
    assert found[place].offset == 0
    second.seek_to_end(place)
    assert second.position(place) == 500, "the end is looked up when it is needed"
    fill(server.bootstrap_servers, topic, 1, 1, first=500)
    assert next(second).offset == 500
    second.close()


@pytest.mark.req("K6", "K7", "K11")
def test_aiokafka_goes_on_from_its_commit_and_processes_again_what_it_seeks(server: ServerProcess, topic: str) -> None:
    create_topic(server.bootstrap_servers, topic)
    fill(server.bootstrap_servers, topic, 1, 500)
    place = AioPlace(topic, 0)

    def member() -> AIOKafkaConsumer:
        return AIOKafkaConsumer(
            topic,
            bootstrap_servers=server.bootstrap_servers,
            group_id=topic,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )

    async def offsets(client: AIOKafkaConsumer, count: int) -> list[int]:
        return [(await asyncio.wait_for(client.getone(), SECONDS_MAX)).offset for _ in range(count)]

    async def run() -> None:
        async with member() as first:
            assert await offsets(first, 300) == list(range(300))
            await first.commit({place: 300})
        async with member() as second:
            assert await offsets(second, 200) == list(range(300, 500))
            await second.seek_to_beginning(place)
            assert await offsets(second, 10) == list(range(10))
            second.seek(place, 123)
            assert await offsets(second, 10) == list(range(123, 133))
            await second.seek_to_end(place)
            await asyncio.to_thread(fill, server.bootstrap_servers, topic, 1, 1, 500)
            assert await offsets(second, 1) == [500]
            assert await second.committed(place) == 300

    asyncio.run(run())


@pytest.mark.req("K5")
def test_auto_commit_follows_at_its_interval(server: ServerProcess, topic: str) -> None:
    create_topic(server.bootstrap_servers, topic)
    fill(server.bootstrap_servers, topic, 1, 100)
    client = confluent(server, topic, **{"enable.auto.commit": True, "auto.commit.interval.ms": 300})

    take(client, 100)
    wait_until(lambda: committed(server.bootstrap_servers, topic, topic, 1) == {0: 100}, SECONDS_MAX)
    fill(server.bootstrap_servers, topic, 1, 50, first=100)
    take(client, 50)
    wait_until(lambda: committed(server.bootstrap_servers, topic, topic, 1) == {0: 150}, SECONDS_MAX)
    client.close()


def test_a_group_without_commits_begins_where_its_setting_says(server: ServerProcess, topic: str) -> None:
    create_topic(server.bootstrap_servers, topic)
    fill(server.bootstrap_servers, topic, 1, 100)
    newest = confluent(server, topic, **{"group.id": f"{topic}-newest", "auto.offset.reset": "latest"})
    wait_until(lambda: _end_seen(newest, topic) == 100, SECONDS_MAX)
    fill(server.bootstrap_servers, topic, 1, 5, first=100)

    assert [message.offset() for message in take(newest, 5)] == list(range(100, 105))
    oldest = confluent(server, topic, **{"group.id": f"{topic}-oldest"})
    assert [message.offset() for message in take(oldest, 105)] == list(range(105))
    newest.close()
    oldest.close()


def test_a_commit_of_someone_who_is_not_a_member_is_refused_while_the_group_has_members(
    server: ServerProcess, topic: str
) -> None:
    create_topic(server.bootstrap_servers, topic)
    fill(server.bootstrap_servers, topic, 1, 10)
    member = confluent(server, topic)
    take(member, 10)
    member.commit(asynchronous=False)
    stranger = Consumer({"bootstrap.servers": server.bootstrap_servers, "group.id": topic, "enable.auto.commit": False})

    with pytest.raises(Exception, match="UNKNOWN_MEMBER_ID"):
        stranger.commit(offsets=[TopicPartition(topic, 0, 3)], asynchronous=False)

    assert committed(server.bootstrap_servers, topic, topic, 1) == {0: 10}
    member.close()
    stranger.commit(offsets=[TopicPartition(topic, 0, 3)], asynchronous=False)
    assert committed(server.bootstrap_servers, topic, topic, 1) == {0: 3}
    stranger.close()


@pytest.mark.req("K1", "K4", "K5", "M9")
def test_the_java_console_consumer_goes_on_where_its_group_stopped(
    server: ServerProcess, tools: JavaTools, topic: str
) -> None:
    create_topic(server.bootstrap_servers, topic)
    fill(server.bootstrap_servers, topic, 1, 30)

    def values(count: int) -> list[int]:
        printed = tools.console_consumer(
            *("--topic", topic, "--group", topic, "--from-beginning"),
            *("--max-messages", str(count), "--timeout-ms", str(SECONDS_MAX * 1000)),
        )
        return [int(line) for line in printed.splitlines() if line.isdigit()]

    assert values(10) == list(range(10))
    assert values(20) == list(range(10, 30))


@pytest.mark.req("K1", "M11")
def test_the_java_consumer_performance_test_reads_everything_in_its_group(
    server: ServerProcess, tools: JavaTools, topic: str
) -> None:
    create_topic(server.bootstrap_servers, topic, 3)
    fill(server.bootstrap_servers, topic, 3, 30_000)

    printed = tools.consumer_performance("--topic", topic, "--num-records", "30000", "--group", topic)

    header, numbers = [_cells(line) for line in printed.splitlines() if line.count(",") > 4][-2:]
    assert dict(zip(header, numbers, strict=True))["data.consumed.in.nMsg"] == "30000"
    wait_until(lambda: sum(committed(server.bootstrap_servers, topic, topic, 3).values()) == 30_000, SECONDS_MAX)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split(",")]


def _end_seen(client: Consumer, topic: str) -> int:
    """The end of the partition as the first answer to a fetch told it: from then on the client has a position."""
    client.poll(0.1)
    _, end = client.get_watermark_offsets(TopicPartition(topic, 0), cached=True)
    assert isinstance(end, int)
    return end
