"""A stream as Spark 4.1 asks for it: all there is each time, and no word of where the query stands."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tidelog
from tidelog.client.admin import Admin
from tidelog.client.blocking.producer import Producer
from tidelog.client.cluster import Cluster
from tidelog.client.core.described import NewTopic
from tidelog.model.ids import TopicName
from tidelog.spark.errors import DataLoss, InvalidOption
from tidelog.spark.options import parse_read_options
from tidelog.spark.schema import full_schema
from tidelog.spark.stream_unlimited import UnlimitedStreamReader
from tidelog.spark.tasks import RangePartition


@pytest.fixture(scope="module")
def broker() -> Iterator[tidelog.Broker]:
    with tidelog.Broker() as running:
        yield running


def fill(broker: tidelog.Broker, topic: str, count: int) -> None:
    with Cluster(broker.bootstrap_servers) as cluster:
        Admin(cluster).create_topics([NewTopic(TopicName(topic), 1)])
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(count):
            producer.send(topic, str(number).encode())


def stream_of(broker: tidelog.Broker, topic: str, **options: str) -> UnlimitedStreamReader:
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": topic, "startingOffsets": "earliest"}
    return UnlimitedStreamReader(parse_read_options(given | options, streaming=True), full_schema(False))


def offsets_of(stream: UnlimitedStreamReader, start: dict[str, dict[str, int]], end: dict[str, dict[str, int]]) -> int:
    tasks = [task for task in stream.partitions(start, end) if isinstance(task, RangePartition)]
    return sum(batch.num_rows for task in tasks for batch in stream.read(task))


def test_each_batch_goes_on_where_the_one_before_it_ended(broker: tidelog.Broker, topic: str) -> None:
    fill(broker, topic, 10)
    stream = stream_of(broker, topic)
    start = stream.initialOffset()
    first = stream.latestOffset()
    read = offsets_of(stream, start, first)
    fill(broker, topic, 5)
    second = stream.latestOffset()

    assert (read, offsets_of(stream, first, second), second) == (10, 5, {topic: {"0": 15}})
    stream.stop()


def test_a_query_that_starts_again_is_told_what_is_lost_by_its_first_batch(broker: tidelog.Broker, topic: str) -> None:
    fill(broker, topic, 3)
    again, careless = stream_of(broker, topic), stream_of(broker, topic, failOnDataLoss="false")
    checkpoint = {topic: {"0": 8}}

    with pytest.raises(DataLoss, match="ends at offset 3, and the query was at offset 8 already"):
        again.partitions(checkpoint, again.latestOffset())
    assert offsets_of(careless, checkpoint, careless.latestOffset()) == 0
    again.stop()
    careless.stop()


def test_limits_that_spark_does_not_ask_for_are_refused(broker: tidelog.Broker, topic: str) -> None:
    for name in ("maxOffsetsPerTrigger", "minOffsetsPerTrigger"):
        with pytest.raises(InvalidOption, match=f"{name} needs Spark 4.2"):
            stream_of(broker, topic, **{name: "100"})
