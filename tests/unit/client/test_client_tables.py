"""A topic as a data frame, with a broker in this process and the real pandas, Polars and DuckDB."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime

import duckdb
import polars
import pyarrow as pa
import pytest

import tidelog
from tidelog.client.admin import Admin, accepted
from tidelog.client.arrow_read import read_partition
from tidelog.client.cluster import Cluster
from tidelog.client.core.described import NewTopic
from tidelog.client.errors import Rejected, RequestExpired
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicName

NOON_MS = 1_700_000_000_000
RECORDS = 300
PARTITIONS = 2


@pytest.fixture(scope="module")
def broker() -> Iterator[tidelog.Broker]:
    with tidelog.Broker(config={"auto.create.topics.enable": False}) as running:
        yield running


@pytest.fixture(scope="module")
def orders(broker: tidelog.Broker) -> str:
    """A topic of two partitions: record n is in partition n % 2 and n seconds after noon."""
    name = TopicName("orders")
    with Cluster(broker.bootstrap_servers) as cluster:
        accepted(Admin(cluster).create_topics([NewTopic(name, PARTITIONS)])[name])
    with tidelog.Producer(bootstrap_servers=broker.bootstrap_servers, batch_size=1000) as producer:
        for number in range(RECORDS):
            producer.send(
                name,
                b'{"number": %d}' % number,
                key=b"k%d" % number if number % 3 else None,
                partition=number % PARTITIONS,
                timestamp_ms=NOON_MS + 1000 * number,
                headers=[("source", b"test")] if number % 5 == 0 else None,
            )
    return name


def table_of(broker: tidelog.Broker, topic: str, **arguments: object) -> tidelog.TopicTable:
    return tidelog.read_topic(topic, broker.bootstrap_servers, **arguments)  # type: ignore[arg-type]


def test_pandas_reads_a_topic_in_one_line(broker: tidelog.Broker, orders: str) -> None:
    frame = tidelog.read_topic(orders, broker.bootstrap_servers).to_pandas()
    assert len(frame) == RECORDS
    assert list(frame.columns) == list(tidelog.read_topic(orders).columns)
    frame = frame.sort_values("timestamp")
    assert list(frame["value"]) == [b'{"number": %d}' % number for number in range(RECORDS)]
    assert list(frame["partition"]) == [number % PARTITIONS for number in range(RECORDS)]
    assert list(frame["offset"]) == [number // PARTITIONS for number in range(RECORDS)]
    assert frame["timestamp"].iloc[0] == datetime.fromtimestamp(NOON_MS / 1000, UTC)
    assert frame["key"].isna().sum() == RECORDS // 3
    assert [list(headers) for headers in frame["headers"]][:2] == [[{"key": "source", "value": b"test"}], []]


def test_polars_reads_a_topic_in_one_line(broker: tidelog.Broker, orders: str) -> None:
    frame = tidelog.read_topic(orders, broker.bootstrap_servers, text=True).to_polars()
    numbers = frame.sort("timestamp").select(polars.col("value").str.json_path_match("$.number").cast(polars.Int64))
    assert numbers["value"].to_list() == list(range(RECORDS))
    assert polars.DataFrame(table_of(broker, orders)).height == RECORDS


def test_duckdb_reads_a_topic_in_one_line(broker: tidelog.Broker, orders: str) -> None:
    relation = tidelog.read_topic(orders, broker.bootstrap_servers, text=True).to_duckdb()
    sums = relation.query("orders", 'select partition, count(*), max("offset") from orders group by 1 order by 1')
    assert sums.fetchall() == [(0, RECORDS // 2, RECORDS // 2 - 1), (1, RECORDS // 2, RECORDS // 2 - 1)]
    stream = table_of(broker, orders).to_reader()  # DuckDB finds the variable by its name.
    assert duckdb.sql("select count(key) from stream").fetchall() == [(RECORDS - RECORDS // 3,)]
    assert stream is not None


@pytest.mark.parametrize(
    ("bounds", "numbers"),
    [
        ({"since": NOON_MS + 290_000}, range(290, RECORDS)),
        ({"since": "2023-11-14T22:18:10+00:00"}, range(290, RECORDS)),
        ({"since": datetime.fromtimestamp(NOON_MS / 1000 + 290, UTC)}, range(290, RECORDS)),
        ({"since": NOON_MS + 10_000, "until": NOON_MS + 20_000}, range(10, 20)),
        ({"since": "-1h"}, range(0)),
        ({"until": 0}, range(0)),
        ({"start": 145}, range(290, RECORDS)),
        ({"start": {1: 145}, "end": {0: 0}}, range(291, RECORDS, 2)),
        ({"end": 5}, range(10)),
        ({"partitions": [1], "end": 5}, range(1, 10, 2)),
    ],
)
def test_times_offsets_and_partitions_bound_what_is_read(
    broker: tidelog.Broker, orders: str, bounds: dict[str, object], numbers: range
) -> None:
    found = table_of(broker, orders, columns=["value"], text=True, **bounds).to_arrow()
    assert found.schema == pa.schema([("value", pa.string())])
    expected = [f'{{"number": {number}}}' for number in numbers]
    assert sorted(found.column("value").to_pylist()) == sorted(expected)


def test_columns_are_read_in_the_order_they_are_asked_for(broker: tidelog.Broker, orders: str) -> None:
    found = table_of(broker, orders, columns=["offset", "key"]).to_arrow()
    assert found.column_names == ["offset", "key"]
    with pytest.raises(ValueError, match="no column 'price'"):
        table_of(broker, orders, columns=["price"])


def test_a_topic_or_a_time_that_does_not_exist_is_an_error_that_says_so(broker: tidelog.Broker) -> None:
    with pytest.raises(Rejected, match="'nowhere' does not exist"):
        table_of(broker, "nowhere").to_arrow()
    with pytest.raises(ValueError, match="is no time"):
        table_of(broker, "orders", since="yesterday")


def test_a_partition_is_read_in_pieces_that_small_fetches_bring(broker: tidelog.Broker, orders: str) -> None:
    with Cluster(broker.bootstrap_servers) as cluster:
        pieces = list(read_partition(cluster, orders, 1, 7, 120, ["offset"], fetch_bytes=1000))
        assert len(pieces) > 3
        assert [offset for piece in pieces for offset in piece.column(0).to_pylist()] == list(range(7, 120))
        # A reader that is left early leaves nothing behind that would disturb the next.
        some = read_partition(cluster, orders, 0, 0, None, fetch_bytes=1000)
        next(some)
        some.close()  # type: ignore[attr-defined]
        assert sum(piece.num_rows for piece in read_partition(cluster, orders, 0, 0)) == RECORDS // PARTITIONS


def test_an_offset_that_is_not_there_is_told_apart_from_one_that_does_not_come(
    broker: tidelog.Broker, orders: str
) -> None:
    with Cluster(broker.bootstrap_servers) as cluster:
        with pytest.raises(Rejected) as raised:
            list(read_partition(cluster, orders, 0, 1_000, 1_001))
        assert raised.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
        with pytest.raises(RequestExpired, match="nothing came from 150 on"):
            list(read_partition(cluster, orders, 0, 140, 151, patience_s=0.2))


def test_a_transaction_that_was_aborted_is_not_read_when_only_committed_records_are_wanted(
    broker: tidelog.Broker,
) -> None:
    name = TopicName("ledger")
    with Cluster(broker.bootstrap_servers) as cluster:
        accepted(Admin(cluster).create_topics([NewTopic(name, 1)])[name])
    with tidelog.Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="ledger") as producer:
        producer.init_transactions()
        for number, kept in ((0, True), (1, False), (2, True)):
            producer.begin_transaction()
            producer.send(name, b"%d" % number)
            if kept:
                producer.commit_transaction()
            else:
                producer.flush()
                producer.abort_transaction()

    def values(read_committed: bool) -> list[str]:
        found = table_of(broker, name, columns=["value"], text=True, read_committed=read_committed)
        values: list[str] = found.to_arrow().column(0).to_pylist()
        return values

    assert values(read_committed=True) == ["0", "2"]
    assert values(read_committed=False) == ["0", "1", "2"]


def test_neither_the_broker_nor_the_client_loads_arrow_unless_it_is_used() -> None:
    program = (
        "import sys, tidelog, tidelog.broker.assembly, tidelog.cli.main\n"
        "tidelog.Producer, tidelog.Broker\n"
        "assert not {'pyarrow', 'numpy', 'pandas'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
