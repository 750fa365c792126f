"""Groups of our own consumer, against our broker and Apache Kafka: both protocols, blocking and asyncio."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from harness.server import ServerProcess
from tidelog import Admin, AsyncConsumer, Consumer, Producer, TopicPartition
from tidelog.model.ids import PartitionIndex, TopicName

SECONDS_MAX = 40
PROTOCOLS = [("classic", "range"), ("classic", "cooperative-sticky"), ("consumer", "range")]


@pytest.fixture(params=["broker", "apache_kafka"])
def servers(request: pytest.FixtureRequest) -> str:
    server: ServerProcess = request.getfixturevalue(request.param)
    return server.bootstrap_servers


def consumer(servers: str, group: str, protocol: str, assignor: str) -> Consumer:
    return Consumer(
        bootstrap_servers=servers,
        group_id=group,
        group_protocol=protocol,
        assignors=[assignor],
        auto_offset_reset="earliest",
        heartbeat_interval_ms=200,
        auto_commit_interval_ms=100,
    )


def fill(servers: str, topic: str, first: int, end: int) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(first, end):
            producer.send(topic, b"%d" % number, b"%d" % number)


@pytest.mark.req("K1", "K2", "K3", "K5", "K10")
@pytest.mark.parametrize(("protocol", "assignor"), PROTOCOLS)
def test_members_share_hand_over_and_go_on(servers: str, topic: str, protocol: str, assignor: str) -> None:
    """One reads all, a second takes its share, the first leaves: every record is read, and none is left behind."""
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topic(topic, partitions=4)
    fill(servers, topic, 0, 200)
    seen: dict[str, list[int]] = {"first": [], "second": []}
    owns: dict[str, int] = {"first": 0, "second": 0}
    stops = {name: threading.Event() for name in seen}

    def member(name: str) -> None:
        with consumer(servers, topic, protocol, assignor) as reading:
            reading.subscribe([topic])
            while not stops[name].is_set():
                seen[name] += [int(record.value) for record in reading.poll(0.1)]
                owns[name] = len(reading.assignment())
        owns[name] = 0

    threads = {name: threading.Thread(target=member, args=(name,), daemon=True) for name in seen}
    end = time.monotonic() + SECONDS_MAX

    def wait(what: str) -> None:
        assert time.monotonic() < end, f"{what}: {owns}, {len(seen['first'])}, {len(seen['second'])}"
        time.sleep(0.05)

    threads["first"].start()
    while len(seen["first"]) < 200 or owns["first"] != 4:
        wait("the first reads all")
    threads["second"].start()
    while owns != {"first": 2, "second": 2}:
        wait("both have a half")
    fill(servers, topic, 200, 400)
    while len({*seen["first"], *seen["second"]}) < 400:
        wait("both read their half")
    stops["first"].set()
    threads["first"].join(SECONDS_MAX)
    while owns["second"] != 4:
        wait("the second has all")
    fill(servers, topic, 400, 600)
    while len({*seen["first"], *seen["second"]}) < 600:
        wait("the second reads all")
    stops["second"].set()
    threads["second"].join(SECONDS_MAX)
    assert sorted(seen["first"] + seen["second"]) == list(range(600))
    places = [TopicPartition(TopicName(topic), PartitionIndex(index)) for index in range(4)]
    with consumer(servers, topic, protocol, assignor) as looking:
        assert sum(offset.offset for offset in looking.committed(*places).values()) == 600


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_an_asyncio_member_does_the_same(servers: str, topic: str, protocol: str) -> None:
    fill(servers, topic, 0, 100)

    async def read(count: int) -> list[int]:
        found: list[int] = []
        async with AsyncConsumer(
            bootstrap_servers=servers, group_id=topic, group_protocol=protocol, auto_offset_reset="earliest"
        ) as reading:
            reading.subscribe([topic])
            async for record in reading:
                found.append(int(record.value))
                if len(found) == count:
                    break
        return found

    async def both() -> list[int]:
        return [*await read(30), *await read(70)]

    assert sorted(asyncio.run(asyncio.wait_for(both(), SECONDS_MAX))) == list(range(100))
