"""Typed columns and segments through Spark itself: what the readers do alone is proven in tests/unit/spark."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any, Final

import fastavro
import pytest
from click.testing import CliRunner
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from harness.server import ServerProcess, StartBroker
from tidelog.cli.sql import sql
from tidelog.cli.sql_views import View, write_views
from tidelog.client.blocking.producer import Producer

RECORDS: Final = 60
CITIES: Final = ("Brest", "Vigo", "Oslo")
AVRO: Final = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "city", "type": "string"},
        {"name": "lines", "type": {"type": "array", "items": "int"}},
    ],
}
JSON: Final = "id bigint, city string, lines array<int>"


@pytest.fixture(scope="module")
def broker(start_broker: StartBroker) -> ServerProcess:
    """One broker with the same orders as JSON and as Avro, number 13 broken in both."""
    broker = start_broker({"num.partitions": "1"})
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(RECORDS):
            order = {"id": number, "city": CITIES[number % 3], "lines": [number]}
            out = io.BytesIO()
            fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(AVRO))), order)
            for topic, value in (("json", json.dumps(order).encode()), ("avro", out.getvalue())):
                producer.send(topic, b"broken" if number == 13 else value, b"%d" % number)
    return broker


def reader(spark: SparkSession, broker: ServerProcess, topic: str, **options: str) -> Any:
    source = spark.read.format("tidelog").option("kafka.bootstrap.servers", broker.bootstrap_servers)
    schema = {"valueSchema": JSON if topic == "json" else json.dumps(AVRO)}
    return source.options(subscribe=topic, valueFormat=topic, **schema, **options)


@pytest.mark.req("R1", "S9")
@pytest.mark.parametrize("topic", ["json", "avro"])
def test_values_are_typed_columns_and_bad_rows_go_as_the_mode_says(
    spark: SparkSession, broker: ServerProcess, topic: str
) -> None:
    kept = reader(spark, broker, topic, columnNameOfCorruptRecord="_corrupt_record").load()
    flat = reader(spark, broker, topic, flatten="true", mode="DROPMALFORMED", via="segments").load()
    strict = reader(spark, broker, topic, mode="FAILFAST").load()

    assert "value:struct<id:bigint,city:string,lines:array<int>>" in kept.schema.simpleString()
    assert kept.where("value is null").selectExpr("offset", "cast(_corrupt_record as string)").collect() == [
        (13, "broken")
    ]
    assert kept.where("_corrupt_record is null").count() == RECORDS - 1
    sums = flat.selectExpr("city", "lines[0] as line").groupBy("city").agg({"*": "count", "line": "sum"})
    assert {row.city: (row["count(1)"], row["sum(line)"]) for row in sums.collect()} == {
        "Brest": (20, sum(range(0, RECORDS, 3))),
        "Vigo": (19, sum(range(1, RECORDS, 3)) - 13),
        "Oslo": (20, sum(range(2, RECORDS, 3))),
    }
    with pytest.raises(PySparkException, match=f"The value of {topic}-0 at offset 13 cannot be read: it is no"):
        strict.count()


def test_schema_mistakes_are_said_before_anything_is_read(
    spark: SparkSession, broker: ServerProcess, tmp_path: Path
) -> None:
    def said(**options: str) -> str:
        with pytest.raises(PySparkException) as raised:
            source = spark.read.format("tidelog").option("kafka.bootstrap.servers", broker.bootstrap_servers)
            source.options(subscribe="json", **options).load().count()
        return str(raised.value)

    assert "a format is one of json, avro, protobuf, not 'xml'" in said(valueFormat="xml")
    assert "the Avro schema is no JSON" in said(valueFormat="avro", valueSchema="{")
    assert f"{tmp_path}/none.avsc cannot be read" in said(valueFormat="avro", valueSchemaFile=f"{tmp_path}/none.avsc")
    assert "Option mode needs option valueFormat" in said(mode="FAILFAST")


@pytest.mark.req("S9")
def test_sql_by_spark_asks_topics_and_views_as_of_an_offset(
    spark: SparkSession, broker: ServerProcess, tmp_path: Path
) -> None:
    views = tmp_path / "views.toml"
    write_views(views, {"orders": View("json", "json", JSON), "old": View("avro", "avro", json.dumps(AVRO))})
    query = (
        "select o.city, count(*) as orders, sum(a.id) as ids from orders as of offset 12 o "
        "join old a on o.id = a.id join latest(json) j on j.offset = o.offset group by 1 order by 1"
    )
    arguments = [query, "--engine", "spark", "--views", str(views), "-b", broker.bootstrap_servers, "--format", "json"]

    done = CliRunner().invoke(sql, arguments, catch_exceptions=False)
    wrong = CliRunner().invoke(sql, ["select nothing from orders", *arguments[1:]])

    assert json.loads(done.stdout) == [
        {"city": "Brest", "orders": 4, "ids": 18},
        {"city": "Oslo", "orders": 4, "ids": 26},
        {"city": "Vigo", "orders": 4, "ids": 22},
    ]
    assert "`nothing` cannot be resolved" in str(wrong.exception)
