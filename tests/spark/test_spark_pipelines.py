"""The pipelines of examples/, each on data of its own: what they promise is what comes out."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.server import ServerProcess, StartBroker
from harness.spark_queries import run_to_end
from tidelog.client.admin import Admin, accepted
from tidelog.client.blocking.producer import Producer
from tidelog.client.cluster import Cluster
from tidelog.client.core.described import NewTopic
from tidelog.model.ids import TopicName
from tidelog.spark.pipeline.definition import AVAILABLE_NOW, PipelineDefinition, read_definition
from tidelog.spark.pipeline.frames import start_query

EXAMPLES = Path(__file__).parents[2] / "examples" / "pipelines"
ORDERS = [
    {"order_id": "1", "customer_id": "a", "city": "Brest", "amount": 10.0, "at": "2026-01-01T10:00:01Z"},
    {"order_id": "2", "customer_id": "b", "city": "Leith", "amount": 250.0, "at": "2026-01-01T10:00:30Z"},
    {"order_id": "3", "customer_id": "a", "city": "Brest", "amount": 5.5, "at": "2026-01-01T10:00:59Z"},
    {"order_id": "3", "customer_id": "a", "city": "Brest", "amount": 5.5, "at": "2026-01-01T10:00:59Z"},
    {"order_id": "4", "customer_id": "x", "city": "Vigo", "amount": -1.0, "at": "2026-01-02T00:00:00Z"},
]


@pytest.fixture(scope="module")
def broker(start_broker: StartBroker) -> ServerProcess:
    return start_broker({"transaction.two.phase.commit.enable": "true"})


@pytest.fixture(scope="module")
def filled(broker: ServerProcess) -> str:
    """The topics that the examples read."""
    customers = [("a", {"customer_id": "a", "name": "old"}), ("b", {"customer_id": "b", "name": "Bo"})]
    customers += [("a", {"customer_id": "a", "name": "Ada"})]
    with Cluster(broker.bootstrap_servers) as cluster:
        for answer in (
            Admin(cluster).create_topics([NewTopic(TopicName(name), 1) for name in ("orders", "lines")]).values()
        ):
            accepted(answer)
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for order in ORDERS:
            producer.send("orders", json.dumps(order).encode())
        producer.send("orders", b"no order")
        for key, customer in customers:
            producer.send("customers", json.dumps(customer).encode(), key.encode())
        for line in ("the tide comes", "The tide goes!"):
            producer.send("lines", line.encode())
    return broker.bootstrap_servers


def run(spark: SparkSession, definition: PipelineDefinition, servers: str, folder: Path) -> None:
    """All that there is now."""
    definition = replace(definition, bootstrap=servers, trigger=AVAILABLE_NOW)
    run_to_end(lambda: start_query(spark, definition, folder / "checkpoint"))


def records(spark: SparkSession, servers: str, topic: str) -> list[Any]:
    source = spark.read.format("tidelog").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
    return source.option("includeHeaders", "true").option("kafka.isolation.level", "read_committed").load().collect()


def values(rows: Iterable[Any]) -> list[Any]:
    return sorted((json.loads(bytes(row.value)) for row in rows), key=json.dumps)


def test_the_data_that_the_examples_come_with_fits_them(
    spark: SparkSession, start_broker: StartBroker, tmp_path: Path
) -> None:
    servers = start_broker({"transaction.two.phase.commit.enable": "true"}).bootstrap_servers

    subprocess.run([sys.executable, str(EXAMPLES.parent / "orders.py"), servers], check=True)
    run(spark, read_definition(EXAMPLES / "quality.toml"), servers, tmp_path / "quality")
    run(spark, read_definition(EXAMPLES / "join.toml"), servers, tmp_path / "join")

    # Of 1,000 orders each twentieth is sent twice, each fiftieth is bad (both: each hundredth), and one is none at all.
    assert len(records(spark, servers, "orders-dead")) == 20 + 10 + 1
    assert len(records(spark, servers, "orders-good")) == 980 + 40
    assert {row["name"] for row in values(records(spark, servers, "orders-with-names"))} == {
        "Ada",
        "Bo",
        "Cleo",
        "Dag",
        "Eva",
    }


@pytest.mark.req("R1", "S9")
def test_archive_writes_parquet_by_day_and_once(spark: SparkSession, filled: str, tmp_path: Path) -> None:
    definition = read_definition(EXAMPLES / "archive.toml")
    definition = replace(definition, sink=replace(definition.sink, path=str(tmp_path / "lake")))

    run(spark, definition, filled, tmp_path)
    run(spark, definition, filled, tmp_path)

    assert (tmp_path / "lake" / "day=2026-01-01").is_dir()
    kept = spark.read.parquet(str(tmp_path / "lake")).where("order_id is not null")
    assert sorted(row.order_id for row in kept.collect()) == ["1", "2", "3", "3", "4"]


@pytest.mark.req("R1", "S12")
def test_aggregate_counts_by_window_when_the_window_is_over(spark: SparkSession, filled: str, tmp_path: Path) -> None:
    run(spark, read_definition(EXAMPLES / "aggregate.toml"), filled, tmp_path)

    rows = records(spark, filled, "orders-by-minute")
    found = {(row["city"], row["orders"], row["amount"]) for row in values(rows)}
    assert found == {("Brest", 3, 21.0), ("Leith", 1, 250.0)}
    assert {bytes(row.key).decode() for row in rows} == {"Brest", "Leith"}


@pytest.mark.req("R1", "S12")
def test_join_takes_the_newest_value_of_each_key(spark: SparkSession, filled: str, tmp_path: Path) -> None:
    run(spark, read_definition(EXAMPLES / "join.toml"), filled, tmp_path)

    names = [(row["order_id"], row["name"]) for row in values(records(spark, filled, "orders-with-names"))]
    assert sorted(names) == [("1", "Ada"), ("2", "Bo"), ("3", "Ada"), ("3", "Ada")]


def test_dedupe_lets_each_order_through_once(spark: SparkSession, filled: str, tmp_path: Path) -> None:
    run(spark, read_definition(EXAMPLES / "dedupe.toml"), filled, tmp_path)

    found = [row.get("order_id") for row in values(records(spark, filled, "orders-once"))]
    assert sorted(order for order in found if order) == ["1", "2", "3", "4"]


def test_wordcount_is_a_transform_in_python(spark: SparkSession, filled: str, tmp_path: Path) -> None:
    run(spark, read_definition(EXAMPLES / "wordcount.py"), filled, tmp_path)

    counts = {row["word"]: row["count"] for row in values(records(spark, filled, "words"))}
    assert counts == {"the": 2, "tide": 2, "comes": 1, "goes": 1}


def test_route_and_quality_send_rows_to_the_topic_that_their_content_names(
    spark: SparkSession, filled: str, tmp_path: Path
) -> None:
    run(spark, read_definition(EXAMPLES / "route.toml"), filled, tmp_path / "route")
    run(spark, read_definition(EXAMPLES / "quality.toml"), filled, tmp_path / "quality")

    assert [row["order_id"] for row in values(records(spark, filled, "orders-large"))] == ["2"]
    assert len(records(spark, filled, "orders-good")) == 4
    dead = {bytes(row.value): bytes(row.headers[0].value) for row in records(spark, filled, "orders-dead")}
    assert dead[b"no order"] == b"no order_id, or no JSON"
    assert sorted(dead.values()) == [b"amount is missing or negative", b"no order_id, or no JSON"]
