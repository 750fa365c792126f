"""kcat, as Debian ships it, against a running broker. It cannot create topics: the broker does on first use."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from drivers import confluent_driver
from drivers.corpus import FIRST_TIMESTAMP_MS, Record, any_records, text_records
from drivers.kcat_driver import COMPRESSIONS, consume, produce, run

from harness.server import ServerProcess
from harness.waiting import wait_until

RECORDS = text_records(100_000)


def create(broker: ServerProcess, topic: str, partitions: int = 1) -> str:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)
    wait_until(lambda: topic in admin.list_topics(timeout=10).topics)
    return topic


def timeless(records: list[Record]) -> list[Record]:
    return [record.without_time() for record in records]


@pytest.mark.req("A13", "D22")
def test_the_cluster_and_its_topics_are_listed(broker: ServerProcess, topic: str) -> None:
    create(broker, topic, partitions=3)

    listed = json.loads(run(broker.bootstrap_servers, "-L", "-J"))

    assert listed["brokers"] == [{"id": 1, "name": broker.bootstrap_servers}]
    assert listed["controllerid"] == 1
    (found,) = [entry for entry in listed["topics"] if entry["topic"] == topic]
    assert [(part["partition"], part["leader"], part["isrs"]) for part in found["partitions"]] == [
        (number, 1, [{"id": 1}]) for number in range(3)
    ]


@pytest.mark.req("A3", "A17", "A19")
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_100_000_records_come_back_unchanged_over_restarts(broker: ServerProcess, topic: str, compression: str) -> None:
    create(broker, topic)

    produce(broker.bootstrap_servers, topic, RECORDS[:50_000], compression=compression)
    broker.restart()
    produce(broker.bootstrap_servers, topic, RECORDS[50_000:], compression=compression)
    broker.restart()

    assert timeless(consume(broker.bootstrap_servers, topic, len(RECORDS))) == timeless(RECORDS)


def test_records_without_key_and_headers_come_back_without(broker: ServerProcess, topic: str) -> None:
    create(broker, topic)
    bare = text_records(1_000, keys=False, headers=False)

    produce(broker.bootstrap_servers, topic, bare)

    assert timeless(consume(broker.bootstrap_servers, topic, len(bare))) == timeless(bare)


def test_records_of_every_shape_are_read(broker: ServerProcess, topic: str) -> None:
    create(broker, topic)
    # kcat prints headers as text; what has none is compared here, with keys and values of any bytes.
    records = [record._replace(headers=()) for record in any_records(1_000)]

    confluent_driver.produce(broker.bootstrap_servers, topic, records)

    assert consume(broker.bootstrap_servers, topic, len(records)) == records


@pytest.mark.req("E1", "E2", "E3")
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_records_arrive_with_every_level_of_acknowledgement(broker: ServerProcess, topic: str, acks: str) -> None:
    create(broker, topic)

    produce(broker.bootstrap_servers, topic, RECORDS[:2_000], acks=acks)

    assert timeless(consume(broker.bootstrap_servers, topic, 2_000)) == timeless(RECORDS[:2_000])


@pytest.mark.req("J1")
def test_an_idempotent_producer_writes_each_record_once(broker: ServerProcess, topic: str) -> None:
    create(broker, topic)

    produce(broker.bootstrap_servers, topic, RECORDS[:10_000], idempotent=True)

    assert timeless(consume(broker.bootstrap_servers, topic, 10_000)) == timeless(RECORDS[:10_000])


@pytest.mark.req("K6", "K7", "K12", "B6")
def test_offsets_are_found_from_the_end_and_by_time(broker: ServerProcess, topic: str) -> None:
    create(broker, topic)
    confluent_driver.produce(broker.bootstrap_servers, topic, RECORDS[:10_000])

    def first(*where: str) -> int:
        printed = run(broker.bootstrap_servers, "-C", "-q", "-t", topic, "-p", "0", *where, "-c", "1", "-f", "%o")
        return int(printed)

    assert first("-o", "beginning") == 0
    assert first("-o", "4321") == 4_321
    assert first("-o", "-10") == 9_990
    assert first("-o", f"s@{FIRST_TIMESTAMP_MS + 777}") == 777
    between = ("-o", f"s@{FIRST_TIMESTAMP_MS + 100}", "-o", f"e@{FIRST_TIMESTAMP_MS + 105}")
    printed = run(broker.bootstrap_servers, "-C", "-q", "-t", topic, "-p", "0", *between, "-f", "%o ")
    assert printed.split() == [b"100", b"101", b"102", b"103", b"104"]
    asked = run(broker.bootstrap_servers, "-Q", "-t", f"{topic}:0:{FIRST_TIMESTAMP_MS + 5_000}")
    assert asked.split() == [topic.encode(), b"[0]", b"offset", b"5000"]


def test_a_reader_stops_at_the_end_of_the_partition(broker: ServerProcess, topic: str) -> None:
    create(broker, topic)
    produce(broker.bootstrap_servers, topic, RECORDS[:10])

    began = time.monotonic()
    printed = run(broker.bootstrap_servers, "-C", "-q", "-e", "-t", topic, "-o", "beginning", "-f", "%o ")

    assert printed.split() == [b"%d" % number for number in range(10)]
    assert time.monotonic() - began < 10


def test_an_unknown_topic_is_created_on_first_use_when_the_broker_allows_it(broker: ServerProcess, topic: str) -> None:
    produce(broker.bootstrap_servers, topic, RECORDS[:10])

    assert timeless(consume(broker.bootstrap_servers, topic, 10)) == timeless(RECORDS[:10])


def test_an_unknown_topic_is_refused_when_the_broker_does_not_create_topics(
    start_broker: Callable[..., ServerProcess], topic: str
) -> None:
    strict = start_broker({"auto.create.topics.enable": "false"})

    said = run(
        *(strict.bootstrap_servers, "-P", "-t", topic, "-X", "topic.metadata.propagation.max.ms=500"),
        stdin=b"lost\n",
        check=False,
    )

    assert b"Unknown topic" in said
    assert topic not in [entry["topic"] for entry in json.loads(run(strict.bootstrap_servers, "-L", "-J"))["topics"]]
