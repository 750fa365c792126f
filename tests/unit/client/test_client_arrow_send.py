"""Tables into topics, with a broker in this process, read back record by record."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pandas
import polars
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidelog
from tidelog.client.admin import Admin, accepted
from tidelog.client.arrow_write import batches_of
from tidelog.client.cluster import Cluster
from tidelog.client.core.described import NewTopic
from tidelog.client.core.partitioner import murmur2, partition_of_key
from tidelog.client.core.table_columns import TableColumns
from tidelog.client.errors import Rejected
from tidelog.model.ids import TopicName
from tidelog.wire.columns.murmur2 import murmur2 as murmur2_of_column

PARTITIONS = 3


@pytest.fixture(scope="module")
def broker() -> Iterator[tidelog.Broker]:
    with tidelog.Broker(config={"num.partitions": PARTITIONS}) as running:
        yield running


@pytest.fixture
def producer(broker: tidelog.Broker) -> Iterator[tidelog.Producer]:
    with tidelog.Producer(bootstrap_servers=broker.bootstrap_servers) as running:
        yield running


def read(broker: tidelog.Broker, topic: str, **arguments: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = tidelog.read_topic(topic, broker.bootstrap_servers, **arguments).to_arrow().to_pylist()
    return rows


@pytest.mark.req("H8", "I3")
def test_rows_arrive_where_single_records_would(broker: tidelog.Broker, producer: tidelog.Producer, topic: str) -> None:
    keys = [f"customer-{number % 50}" for number in range(5000)]
    table = pa.table({"customer": keys, "payload": [f"{number}" for number in range(5000)], "else": range(5000)})

    written = producer.send_table(topic, table, key="customer", value="payload").result(30)

    assert written.records == 5000
    rows = read(broker, topic)
    for partition in range(PARTITIONS):
        found = [(row["key"], row["value"]) for row in rows if row["partition"] == partition]
        expected = [
            (key.encode(), b"%d" % number)
            for number, key in enumerate(keys)
            if partition_of_key(key.encode(), PARTITIONS) == partition
        ]
        assert found == expected


@pytest.mark.parametrize("kind", ["pandas", "polars", "batches", "reader", "record batch"])
def test_whatever_speaks_arrow_can_be_sent(
    broker: tidelog.Broker, producer: tidelog.Producer, topic: str, kind: str
) -> None:
    table = pa.table(
        {"key": ["a", None, "c"], "value": [b"1", b"2", None]}, pa.schema({"key": "str", "value": "binary"})
    )
    data: Any = {
        "pandas": lambda: table.to_pandas(),
        "polars": lambda: polars.from_arrow(table),
        "batches": lambda: (table.slice(row, 1) for row in range(3)),
        "reader": lambda: table.to_reader(),
        "record batch": lambda: table.to_batches()[0],
    }[kind]()
    assert producer.send_table(topic, data, partition=1).result(30).first_offsets == {1: 0}
    assert [(row["key"], row["value"]) for row in read(broker, topic)] == [(b"a", b"1"), (None, b"2"), (b"c", None)]


def test_times_headers_and_partitions_come_from_columns(
    broker: tidelog.Broker, producer: tidelog.Producer, topic: str
) -> None:
    moments = pandas.to_datetime(["2026-01-31T12:00:00.123456Z", "2026-01-31T13:00:00.5Z"])
    headers = pa.array([[("a", b"1"), ("b", None)], []], pa.map_(pa.string(), pa.binary()))
    table = pa.table({"value": ["x", "y"], "timestamp": moments, "headers": headers, "place": [2, 0]})
    producer.send_table(topic, table, partition="place").result(30)
    first, second = sorted(read(broker, topic), key=lambda row: -row["partition"])
    assert (first["partition"], second["partition"]) == (2, 0)
    assert first["timestamp"].isoformat() == "2026-01-31T12:00:00.123000+00:00"
    assert first["headers"] == [{"key": "a", "value": b"1"}, {"key": "b", "value": None}]
    assert second["headers"] == []
    assert first["key"] is None


def test_a_topic_that_was_read_can_be_sent_on_as_it_is(
    broker: tidelog.Broker, producer: tidelog.Producer, topic: str
) -> None:
    for number in range(10):
        producer.send(topic, b"%d" % number, key=b"k", timestamp_ms=1000 + number, headers=[("n", b"%d" % number)])
    producer.flush()
    table = tidelog.read_topic(topic, broker.bootstrap_servers)
    producer.send_table(f"{topic}-copy", table).result(30)
    wanted = ["key", "value", "headers", "timestamp"]
    assert read(broker, f"{topic}-copy", columns=wanted) == read(broker, topic, columns=wanted)


def test_rows_without_a_key_fill_one_partition_after_the_other() -> None:
    table = pa.table({"value": [bytes(100)] * 20_000})
    batches = list(batches_of(table, TableColumns(), PARTITIONS, 100_000))
    counts = dict.fromkeys(range(PARTITIONS), 0)
    for partition, records in batches:
        counts[partition] += records.count
        assert len(records.body) <= 100_000
    assert sum(counts.values()) == 20_000
    assert max(counts.values()) < 1.3 * min(counts.values())
    assert len(batches) < 40


def test_a_table_is_part_of_a_transaction(broker: tidelog.Broker, topic: str) -> None:
    settings = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": topic}
    with tidelog.Producer(settings) as producer:
        producer.init_transactions()
        for value, kept in (("lost", False), ("kept", True)):
            producer.begin_transaction()
            producer.send_table(topic, pa.table({"value": [value] * 100})).result(30)
            producer.commit_transaction() if kept else producer.abort_transaction()
    rows = read(broker, topic, columns=["value"], read_committed=True)
    assert rows == [{"value": b"kept"}] * 100


def test_an_asyncio_producer_sends_tables_too(broker: tidelog.Broker, topic: str) -> None:
    async def send() -> tuple[int, dict[int, int]]:
        async with tidelog.AsyncProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
            delivery = await producer.send_table(topic, pa.table({"value": ["a", "b"]}), partition=0)
            written = await delivery
            assert delivery.done()
            return written

    assert asyncio.run(send()) == (2, {0: 0})


def test_what_cannot_be_sent_is_said_before_anything_is(producer: tidelog.Producer, topic: str) -> None:
    numbers = pa.table({"price": [1, 2], "value": ["a", "b"]})
    with pytest.raises(TypeError, match="'price' is int64; keys and values are text or bytes"):
        producer.send_table(topic, numbers, key="price")
    with pytest.raises(ValueError, match="no column 'cost'"):
        producer.send_table(topic, numbers, key="cost")
    with pytest.raises(ValueError, match="Which column is the value"):
        producer.send_table(topic, numbers.drop(["value"]))
    with pytest.raises(TypeError, match="int is no table"):
        producer.send_table(topic, 5)
    with pytest.raises(Rejected, match="no partition 9"):
        producer.send_table(topic, numbers, partition=9)


def test_a_row_that_no_broker_takes_fails_its_delivery(broker: tidelog.Broker, topic: str) -> None:
    with Cluster(broker.bootstrap_servers) as cluster:
        name = TopicName(topic)
        accepted(Admin(cluster).create_topics([NewTopic(name, 1, configs={"max.message.bytes": "1000"})])[name])
    with tidelog.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        fitting = producer.send_table(topic, pa.table({"value": [bytes(300)] * 50}))
        assert fitting.result(30).records == 50
        with pytest.raises(Rejected):
            producer.send_table(topic, pa.table({"value": [bytes(2000)]})).result(30)


@given(st.lists(st.binary(max_size=40), max_size=30), st.integers(0, 5))
def test_the_hash_of_a_column_is_that_of_each_key(keys: list[bytes], start: int) -> None:
    column = pa.array(keys, pa.binary()).slice(start)
    assert murmur2_of_column(column).tolist() == [murmur2(key) for key in keys[start:]]
