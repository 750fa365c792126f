"""Segments that Apache Kafka wrote, read from its disk: the rows that it sends over the network."""

from __future__ import annotations

import pytest

import tidelog
from harness.server import ServerProcess
from tidelog.client.admin import Admin, accepted
from tidelog.client.cluster import Cluster
from tidelog.client.core.described import NewTopic
from tidelog.model.ids import TopicName
from tidelog.spark.batch_reader import BatchReader
from tidelog.spark.options import parse_read_options
from tidelog.spark.schema import full_schema

RECORDS = 3000


def rows(server: ServerProcess, topic: str, **options: str) -> list[tuple[object, ...]]:
    given = {"kafka.bootstrap.servers": server.bootstrap_servers, "subscribe": topic, **options}
    reader = BatchReader(parse_read_options(given, streaming=False), full_schema(False))
    found: list[tuple[object, ...]] = []
    for task in reader.partitions():
        for batch in reader.read(task):
            found += zip(*[column.to_pylist() for column in batch.columns], strict=True)
    return found


@pytest.mark.req("S9")
@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
def test_segments_of_apache_kafka_have_the_rows_that_it_sends(
    apache_kafka: ServerProcess, topic: str, level: str
) -> None:
    servers = apache_kafka.bootstrap_servers
    with Cluster(servers) as cluster:
        wanted = NewTopic(TopicName(topic), 2, configs={"segment.bytes": "1048576"})
        accepted(Admin(cluster).create_topics([wanted])[TopicName(topic)])
    with tidelog.Producer(bootstrap_servers=servers, compression="lz4") as producer:
        for number in range(RECORDS):
            producer.send(topic, b"%08d" % number * 100, b"%d" % number)
    with tidelog.Producer(bootstrap_servers=servers, transactional_id=topic) as producer:
        producer.init_transactions()
        for lot in range(4):
            producer.begin_transaction()
            for number in range(100):
                producer.send(topic, b"lot %d" % lot, b"%d" % number)
            producer.flush()
            (producer.commit_transaction if lot % 2 else producer.abort_transaction)()
    isolation = {"kafka.isolation.level": level}
    network = rows(apache_kafka, topic, **isolation)
    assert len(network) == RECORDS + (200 if level == "read_committed" else 400)
    assert rows(apache_kafka, topic, via="segments", **isolation) == network
