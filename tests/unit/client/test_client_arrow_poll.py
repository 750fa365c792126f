"""Consumers that read columns, with a broker in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import tidelog
from tidelog.client.arrow_poll import rows_of
from tidelog.client.core.chunk import FetchedChunk
from tidelog.client.errors import Rejected
from tidelog.model.ids import Offset, PartitionIndex, TopicName, TopicPartition
from tidelog.wire.records import Record, build_batch

ROWS = 4000
PARTITIONS = 2


@pytest.fixture(scope="module")
def broker() -> Iterator[tidelog.Broker]:
    with tidelog.Broker(config={"num.partitions": PARTITIONS}) as running:
        yield running


@pytest.fixture(scope="module")
def numbers(broker: tidelog.Broker) -> str:
    table = pa.table({"key": [f"k{row}" for row in range(ROWS)], "value": [f"{row}" for row in range(ROWS)]})
    with tidelog.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send_table("numbers", table).result(30)
    return "numbers"


def settings(broker: tidelog.Broker, **more: Any) -> dict[str, Any]:
    return {"bootstrap.servers": broker.bootstrap_servers, "auto.offset.reset": "earliest", **more}


@pytest.mark.req("K3")
def test_a_member_of_a_group_polls_columns_and_commits_what_it_got(broker: tidelog.Broker, numbers: str) -> None:
    batches = []
    with tidelog.Consumer(settings(broker, **{"group.id": "columns"})) as consumer:
        consumer.subscribe([numbers])
        while sum(batch.num_rows for batch in batches) < ROWS:
            batches.append(consumer.poll_arrow(20))
            assert batches[-1].num_rows
    table = pa.Table.from_batches(batches)
    assert sorted(map(int, table.column("value").cast(pa.string()).to_pylist())) == list(range(ROWS))
    for batch in batches:
        assert len(set(batch.column("partition").to_pylist())) == 1
        assert set(batch.column("topic").to_pylist()) == {numbers}
        offsets = batch.column("offset").to_pylist()
        assert offsets == list(range(offsets[0], offsets[0] + len(offsets)))
    with tidelog.Consumer(settings(broker, **{"group.id": "columns"})) as again:
        again.subscribe([numbers])
        assert again.poll_arrow(1.5).num_rows == 0


def test_columns_are_read_from_a_position_within_a_batch(broker: tidelog.Broker, numbers: str) -> None:
    place = TopicPartition(TopicName(numbers), PartitionIndex(0))
    with tidelog.Consumer(settings(broker)) as consumer:
        consumer.assign([place])
        consumer.seek(place, 7)
        batch = consumer.poll_arrow(20, columns=["offset", "value"])
        assert batch.schema.names == ["offset", "value"]
        assert batch.column("offset")[0].as_py() == 7
        assert consumer.position(place) == batch.column("offset")[-1].as_py() + 1
        records = consumer.poll(0.2)
        assert not records or records[0].offset == consumer.position(place) - len(records)


def test_an_asyncio_consumer_polls_columns_too(broker: tidelog.Broker, numbers: str) -> None:
    async def read() -> int:
        rows = 0
        async with tidelog.AsyncConsumer(settings(broker, **{"group.id": "async-columns"})) as consumer:
            consumer.subscribe([numbers])
            while rows < ROWS:
                batch = await consumer.poll_arrow(20, ["key"])
                assert batch.num_rows
                rows += batch.num_rows
            assert (await consumer.poll_arrow(0.1)).num_rows == 0
        return rows

    assert asyncio.run(read()) == ROWS


def test_bytes_that_are_damaged_say_where() -> None:
    damaged = bytearray(build_batch([Record(0, 5, b"k", b"v")]))
    damaged[-1] ^= 1
    place = TopicPartition(TopicName("t"), PartitionIndex(3))
    with pytest.raises(Rejected, match="t-3 cannot be read at offset 0: Record is corrupt"):
        rows_of(FetchedChunk(place, memoryview(damaged), Offset(0)), ["value"], check_crcs=True)
