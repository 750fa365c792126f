"""Both fronts of the consumer against a real broker in this process."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tidelog import AsyncConsumer, AsyncProducer, Broker, Consumer, Producer, RebalanceListener, TopicPartition
from tidelog.client.core.record_reader import read_chunk
from tidelog.client.errors import ClientClosed, CommitFailed, InvalidOption, Rejected, SerializationFailed
from tidelog.model.ids import PartitionIndex, TopicName

TIMEOUT_S = 15.0


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("consumer")
    settings = {"num.partitions": "3", "group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "1000"}
    with Broker(data=folder, config=settings) as broker:
        yield broker.bootstrap_servers


def fill(servers: str, topic: str, records: int, partition: int | None = None) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(records):
            producer.send(topic, b"%d" % number, partition=partition, timestamp_ms=1_000 + number)


def place(topic: str, partition: int) -> TopicPartition:
    return TopicPartition(TopicName(topic), PartitionIndex(partition))


def read(consumer: Consumer, records: int) -> list[bytes]:
    found: list[bytes] = []
    end = time.monotonic() + TIMEOUT_S
    while len(found) < records and time.monotonic() < end:
        found += [record.value for record in consumer.poll(0.2)]
    return found


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


def test_assigned_partitions_are_read_from_wherever_one_seeks(servers: str) -> None:
    fill(servers, "seeks", 100, partition=0)
    first = place("seeks", 0)
    with Consumer(bootstrap_servers=servers, max_poll_records=7) as consumer:
        consumer.assign(consumer.partitions_for("seeks"))
        consumer.seek_to_beginning()
        records = consumer.poll(TIMEOUT_S)
        assert [record.offset for record in records] == list(range(7))
        assert consumer.position(first) == 7
        consumer.seek(first, 90)
        assert read(consumer, 10) == [b"%d" % number for number in range(90, 100)]
        consumer.seek_to_time(1_050, first)
        assert read(consumer, 7)[0] == b"50"
        consumer.seek_to_end(first)
        assert consumer.poll(0.3) == []
        assert consumer.position(first) == 100
        assert consumer.beginning_offsets(first) == {first: 0}
        assert consumer.end_offsets(first) == {first: 100}
        found = consumer.offsets_for_times({first: 1_099, place("seeks", 1): 5})
        assert found[first] is not None and found[first].offset == 99
        assert found[place("seeks", 1)] is None


def test_a_paused_partition_gives_nothing_until_it_is_resumed(servers: str) -> None:
    fill(servers, "pauses", 10, partition=0)
    fill(servers, "pauses", 10, partition=1)
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([place("pauses", 0), place("pauses", 1)])
        consumer.pause(place("pauses", 0))
        seen = {record.partition for _ in range(5) for record in consumer.poll(0.2)}
        assert seen == {1}
        assert consumer.paused() == {place("pauses", 0)}
        consumer.resume(place("pauses", 0))
        assert len(read(consumer, 10)) == 10


def test_what_is_left_of_a_fetch_waits_while_its_partition_is_paused(servers: str) -> None:
    fill(servers, "pauses-halfway", 10, partition=0)
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest", max_poll_records=3) as consumer:
        there = place("pauses-halfway", 0)
        consumer.assign([there])
        assert read(consumer, 3) == [b"0", b"1", b"2"]
        consumer.pause(there)
        assert consumer.poll(0.3) == [] and consumer.position(there) == 3
        consumer.resume(there)
        assert [next(consumer).value for _ in range(4)] == [b"3", b"4", b"5", b"6"]
        consumer.pause(there)
        consumer.seek(there, 1)
        consumer.resume(there)
        assert read(consumer, 1)[0] == b"1"


def test_records_and_tables_can_be_asked_for_in_turn(servers: str) -> None:
    for partition in (0, 1):
        fill(servers, "in-turn", 10, partition=partition)
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([place("in-turn", 0), place("in-turn", 1)])
        seen = [(record.partition, record.offset) for record in (next(consumer) for _ in range(4))]
        for _ in range(4):
            rows = consumer.poll_arrow(1.0, ["partition", "offset"]).to_pylist()
            seen += [(row["partition"], row["offset"]) for row in rows]
            if len(seen) >= 20:
                break
        assert sorted(seen) == [(partition, offset) for partition in (0, 1) for offset in range(10)]
        assert {consumer.position(place("in-turn", partition)) for partition in (0, 1)} == {10}


def test_chunks_are_handed_out_as_they_came_with_their_position(servers: str) -> None:
    fill(servers, "chunks", 50, partition=0)
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([place("chunks", 0)])
        values = []
        while len(values) < 50:
            chunk = consumer.poll_chunk(TIMEOUT_S)
            assert chunk is not None
            assert chunk.position == len(values)
            records, next_offset = read_chunk(chunk)
            values += [record.value for record in records]
            consumer.went_to(next_offset)
        assert consumer.position(place("chunks", 0)) == 50
        assert values == [b"%d" % number for number in range(50)]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_goes_on_where_it_stopped(servers: str, protocol: str) -> None:
    topic = f"goes-on-{protocol}"
    fill(servers, topic, 60)
    settings = {
        "bootstrap.servers": servers,
        "group.id": topic,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "max.poll.records": 20,
    }
    with Consumer(settings) as consumer:
        consumer.subscribe([topic])
        before = read(consumer, 20)[:20]
    with Consumer(settings) as consumer:
        consumer.subscribe([topic])
        after = read(consumer, 40)
        assert consumer.group_metadata().group_id == topic
    assert sorted(map(int, before + after)) == list(range(60))


def test_after_an_exception_the_last_records_are_read_again(servers: str) -> None:
    fill(servers, "again", 10, partition=0)
    settings = {"bootstrap.servers": servers, "group.id": "again", "auto.offset.reset": "earliest"}
    with pytest.raises(RuntimeError), Consumer(settings) as consumer:
        consumer.subscribe(["again"])
        for record in consumer:
            if record.value == b"5":
                raise RuntimeError("this one could not be dealt with")
    with Consumer(settings) as consumer:
        consumer.subscribe(["again"])
        assert read(consumer, 10) == [b"%d" % number for number in range(10)]


def test_breaking_out_of_the_loop_commits_what_was_handed_out_and_no_more(servers: str) -> None:
    fill(servers, "break", 10, partition=0)
    settings = {"bootstrap.servers": servers, "group.id": "break", "auto.offset.reset": "earliest"}
    with Consumer(settings) as consumer:
        consumer.subscribe(["break"])
        for record in consumer:
            if record.value == b"3":
                break
    with Consumer(settings) as consumer:
        consumer.subscribe(["break"])
        assert read(consumer, 6) == [b"%d" % number for number in range(4, 10)]


class Watching(RebalanceListener):
    def __init__(self) -> None:
        self.told: list[tuple[str, list[TopicPartition]]] = []

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        self.told.append(("assigned", partitions))

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        self.told.append(("revoked", partitions))

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        self.told.append(("lost", partitions))


def test_heartbeats_go_on_while_the_program_does_not_poll(servers: str) -> None:
    fill(servers, "beats", 1)
    watching = Watching()
    with Consumer(
        bootstrap_servers=servers, group_id="beats", session_timeout_ms=1_500, heartbeat_interval_ms=200
    ) as consumer:
        consumer.subscribe(["beats"], listener=watching)
        until(lambda: consumer.poll(0.1) == [] and len(consumer.assignment()) == 3)
        time.sleep(2.5)
        consumer.commit({place("beats", 0): 1})
        consumer.poll(0.2)
    assert [kind for kind, _ in watching.told] == ["assigned"]


def test_a_program_that_stops_polling_loses_its_partitions_and_gets_them_back(servers: str) -> None:
    fill(servers, "asleep", 3)
    watching = Watching()
    with Consumer(
        bootstrap_servers=servers, group_id="asleep", max_poll_interval_ms=700, heartbeat_interval_ms=100
    ) as consumer:
        consumer.subscribe(["asleep"], listener=watching)
        until(lambda: consumer.poll(0.1) == [] and len(consumer.assignment()) == 3)
        time.sleep(1.2)
        with pytest.raises(CommitFailed):
            consumer.commit({place("asleep", 0): 1})
        until(lambda: consumer.poll(0.1) == [] and len(watching.told) == 3)
    assert [kind for kind, _ in watching.told] == ["assigned", "lost", "assigned"]


@pytest.mark.parametrize("assignor", ["sticky", "cooperative-sticky"])
def test_two_members_share_a_topic_and_the_last_one_gets_all(servers: str, assignor: str) -> None:
    topic = f"shared-{assignor}"
    fill(servers, topic, 3)
    stop = threading.Event()
    other_has: list[int] = []

    def other() -> None:
        with Consumer(
            bootstrap_servers=servers, group_id=topic, assignors=[assignor], heartbeat_interval_ms=100
        ) as consumer:
            consumer.subscribe(topic)
            while not stop.is_set():
                consumer.poll(0.05)
                other_has.append(len(consumer.assignment()))

    with Consumer(
        bootstrap_servers=servers, group_id=topic, assignors=[assignor], heartbeat_interval_ms=100
    ) as consumer:
        consumer.subscribe(topic)
        until(lambda: consumer.poll(0.05) == [] and len(consumer.assignment()) == 3)
        thread = threading.Thread(target=other)
        thread.start()
        try:
            until(
                lambda: (
                    not consumer.poll(0.05)
                    and bool(other_has)
                    and other_has[-1] + len(consumer.assignment()) == 3
                    and 0 < other_has[-1] < 3
                )
            )
        finally:
            stop.set()
            thread.join(TIMEOUT_S)
        until(lambda: consumer.poll(0.05) == [] and len(consumer.assignment()) == 3)


def test_a_pattern_reads_topics_as_they_appear(servers: str) -> None:
    with Consumer(
        bootstrap_servers=servers, group_id="pattern", auto_offset_reset="earliest", metadata_max_age_ms=200
    ) as consumer:
        consumer.subscribe(pattern=r"weather-.*")
        assert consumer.poll(0.3) == []
        fill(servers, "weather-north", 5)
        fill(servers, "climate", 5)
        assert len(read(consumer, 5)) == 5
        fill(servers, "weather-south", 5)
        assert len(read(consumer, 5)) == 5
        assert consumer.subscription() == {"weather-north", "weather-south"}


def test_what_a_consumer_cannot_do_it_refuses(servers: str) -> None:
    fill(servers, "refusals", 1, partition=0)
    with Consumer(bootstrap_servers=servers, auto_offset_reset="none", value_deserializer="json") as consumer:
        with pytest.raises(InvalidOption, match="group_id"):
            consumer.subscribe(["refusals"])
        with pytest.raises(InvalidOption, match="group_id"):
            consumer.commit()
        with pytest.raises(Rejected, match="not assigned"):
            consumer.seek(place("refusals", 0), 1)
        consumer.assign([place("refusals", 0)])
        with pytest.raises(Rejected, match="auto_offset_reset is none"):
            read(consumer, 1)
        consumer.seek(place("refusals", 0), 500)
        with pytest.raises(Rejected, match="outside"):
            read(consumer, 1)
    with pytest.raises(ClientClosed):
        consumer.poll(0)


def test_a_value_that_is_not_what_was_expected_stops_the_reading_before_it(servers: str) -> None:
    there = place("not-json", 0)
    with Producer(bootstrap_servers=servers) as producer:
        for value in (b"1", b"2", b"{", b"4"):
            producer.send("not-json", value, partition=0)
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest", value_deserializer="json") as consumer:
        consumer.assign([there])
        assert [next(consumer).value, next(consumer).value] == [1, 2]
        for _ in range(2):
            with pytest.raises(SerializationFailed) as caught:
                read(consumer, 1)
            assert (caught.value.partition, caught.value.offset) == (there, 2)
            assert consumer.position(there) == 2
        consumer.seek(there, 3)
        assert next(consumer).value == 4


def test_the_asyncio_front_does_the_same(servers: str) -> None:
    class Slow(RebalanceListener):
        told: list[str] = []

        async def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
            await asyncio.sleep(0)
            self.told.append("assigned")

    async def use() -> list[int]:
        async with AsyncProducer(bootstrap_servers=servers, value_serializer="json") as producer:
            for number in range(30):
                await producer.send("async-group", number)
        found: list[int] = []
        async with AsyncConsumer(
            bootstrap_servers=servers, group_id="async", auto_offset_reset="earliest", value_deserializer="json"
        ) as consumer:
            consumer.subscribe(["async-group"], listener=Slow())
            async for record in consumer:
                found.append(record.value)
                if len(found) == 10:
                    break
            await consumer.commit()
            committed = await consumer.committed(*consumer.assignment())
            assert sum(offset.offset for offset in committed.values()) == 10
        async with AsyncConsumer(
            bootstrap_servers=servers, group_id="async", auto_offset_reset="earliest", value_deserializer="json"
        ) as consumer:
            consumer.subscribe(["async-group"])
            while len(found) < 30:
                found += [record.value for record in await consumer.poll()]
        return found

    async def limited() -> list[int]:
        async with asyncio.timeout(TIMEOUT_S):
            return await use()

    assert sorted(asyncio.run(limited())) == list(range(30))
    assert Slow.told == ["assigned"]
