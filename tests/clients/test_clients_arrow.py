"""Tables beside other clients, on our broker or on a real Apache Kafka: the same records, codec by codec, and the same
lines from the perf tools as from Java's."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from drivers import confluent_driver
from drivers.corpus import Record, any_records

import tidelog
from harness.java import JavaTools
from harness.server import ServerProcess
from harness.waiting import wait_until

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
NUMBER = re.compile(r"\d+(?:\.\d+)?")


def create(broker: ServerProcess, topic: str, partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)
    wait_until(lambda: topic in admin.list_topics(timeout=10).topics)


def table_of(records: list[Record]) -> Any:
    return pa.table(
        {
            "key": pa.array([record.key for record in records], pa.binary()),
            "value": pa.array([record.value for record in records], pa.binary()),
            "timestamp": pa.array([record.timestamp_ms for record in records], pa.timestamp("ms", "UTC")),
            "headers": pa.array(
                [[{"key": name, "value": value} for name, value in record.headers] for record in records], HEADERS
            ),
        }
    )


def records_of(table: Any) -> list[Record]:
    times = table.column("timestamp").cast(pa.int64()).to_pylist()
    return [
        Record(row["key"], row["value"], tuple((one["key"], one["value"]) for one in row["headers"]), time)
        for row, time in zip(table.to_pylist(), times, strict=True)
    ]


@pytest.mark.req("A5", "A14", "H8", "K3")
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_tables_and_librdkafka_write_and_read_the_same(broker: ServerProcess, topic: str, compression: str) -> None:
    create(broker, topic)
    records = any_records(2_000)
    confluent_driver.produce(broker.bootstrap_servers, topic, records, compression=compression)
    with tidelog.Producer(bootstrap_servers=broker.bootstrap_servers, compression_type=compression) as producer:
        producer.send_table(topic, table_of(records)).result(60)

    assert confluent_driver.consume(broker.bootstrap_servers, topic, 4_000) == records * 2
    assert records_of(tidelog.read_topic(topic, broker.bootstrap_servers).to_arrow()) == records * 2
    with tidelog.Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([tidelog.TopicPartition(topic, 0)])  # type: ignore[arg-type]
        polled: list[Record] = []
        while len(polled) < 4_000:
            batch = consumer.poll_arrow(30)
            assert batch.num_rows
            polled += records_of(pa.Table.from_batches([batch]))
    assert polled == records * 2


@pytest.mark.req("I3")
def test_keys_of_a_table_go_to_the_partitions_that_librdkafka_chooses_as_java_does(
    broker: ServerProcess, topic: str
) -> None:
    create(broker, topic, 7)
    keys = [f"key-{number}".encode() for number in range(2_000)]
    settings = {"bootstrap.servers": broker.bootstrap_servers, "partitioner": "murmur2_random"}
    from confluent_kafka import Producer

    other = Producer(settings)
    for key in keys:
        other.produce(topic, b"theirs", key)
    other.flush(60)
    with tidelog.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send_table(topic, pa.table({"key": keys, "value": ["ours"] * len(keys)})).result(60)
    rows = tidelog.read_topic(topic, broker.bootstrap_servers, columns=["partition", "key", "value"]).to_arrow()
    places = {
        value: {row["key"]: row["partition"] for row in rows.to_pylist() if row["value"] == value}
        for value in (b"theirs", b"ours")
    }
    assert len(places[b"ours"]) == len(keys)
    assert places[b"ours"] == places[b"theirs"]


def ours(command: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tidelog", command, *arguments], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.req("M10", "M11", "O1", "O2")
def test_the_perf_tools_print_the_lines_of_javas(broker: ServerProcess, java_tools: JavaTools, topic: str) -> None:
    create(broker, topic)
    where = ("--bootstrap-server", broker.bootstrap_servers)
    producing = ("--topic", topic, "--num-records", "4000", "--throughput", "-1", "--record-size", "100")
    consuming = ("--topic", topic, "--num-records", "4000")

    theirs = java_tools.producer_performance(*producing).splitlines()
    assert shape(ours("kafka-producer-perf-test", *where, *producing).splitlines()[-1]) == shape(theirs[-1])

    header, row = ours("kafka-consumer-perf-test", *where, *consuming).splitlines()
    their_header, their_row = java_tools.consumer_performance(*consuming).splitlines()[-2:]
    assert header == their_header
    assert shape(row) == shape(their_row)


def shape(line: str) -> str:
    """A line with its numbers left out, but not how many digits follow the point."""
    return NUMBER.sub(lambda found: "#" + "." + "#" * len(found[0].partition(".")[2]), line)
