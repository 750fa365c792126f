from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tidelog.client.blocking.producer import Producer
from tidelog.model.ids import Offset, PartitionIndex, TopicName, TopicPartition
from tidelog.spark import fetching
from tidelog.spark.errors import DataLoss
from tidelog.spark.fetching import BATCH_BYTES_MAX, ROWS_MAX, pieces, read_range
from tidelog.spark.options import ReadOptions, parse_read_options
from tidelog.spark.planning import Range
from tidelog.testing.embedded import Broker

PLACE = TopicPartition(TopicName("orders"), PartitionIndex(0))
RECORDS = 10


def options_of(broker: Broker) -> ReadOptions:
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": PLACE.topic}
    return parse_read_options(given, streaming=False)


def rows_of(options: ReadOptions, end: int = RECORDS) -> int:
    return sum(batch.num_rows for batch in read_range(options, Range(PLACE, Offset(0), Offset(end)), ["value"]))


def test_a_task_goes_on_with_the_connections_of_the_last_and_makes_new_ones_when_they_are_dead(tmp_path: Path) -> None:
    with Broker(data=tmp_path) as broker:
        port, options = broker.port, options_of(broker)
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for _ in range(RECORDS):
                producer.send(PLACE.topic, b"value")
        assert rows_of(options) == RECORDS
        (kept,) = fetching._kept.values()
        assert rows_of(options) == RECORDS
        assert list(fetching._kept.values()) == [kept]
    with Broker(data=tmp_path, port=port):
        assert rows_of(options) == RECORDS


def test_connections_of_a_task_that_failed_are_not_kept(tmp_path: Path) -> None:
    with Broker(data=tmp_path) as broker:
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            producer.send(PLACE.topic, b"value")
        with pytest.raises(DataLoss):
            list(read_range(options_of(broker), Range(PLACE, Offset(5), Offset(9)), ["value"]))
        assert not fetching._kept


@pytest.mark.parametrize(
    ("row_bytes", "rows", "largest"),
    [(0, 0, 0), (10, 50_000, 50_000), (1, ROWS_MAX + 1, ROWS_MAX), (BATCH_BYTES_MAX, 3, 1), (4096, 5_000, 2_050)],
)
def test_spark_is_handed_batches_of_bounded_rows_and_bytes(row_bytes: int, rows: int, largest: int) -> None:
    batch = pa.record_batch({"value": pa.array([bytes(row_bytes)] * rows, pa.binary())})
    found = list(pieces(batch))
    assert max((piece.num_rows for piece in found), default=0) <= largest
    assert sum(piece.num_rows for piece in found) == rows
    if found:
        assert pa.Table.from_batches(found).equals(pa.Table.from_batches([batch]))
        assert len(found) == -(-rows // max(piece.num_rows for piece in found))
