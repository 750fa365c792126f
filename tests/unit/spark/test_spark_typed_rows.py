"""Typed columns as a task of Spark makes them, without Spark around it (that is in tests/spark)."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

import tidelog
from tidelog.spark.batch_reader import BatchReader
from tidelog.spark.errors import BadValue, InvalidOption
from tidelog.spark.options import parse_read_options
from tidelog.spark.source import FoundSource

ORDER = StructType(
    [
        StructField("id", LongType()),
        StructField("city", StringType()),
        StructField("lines", ArrayType(IntegerType())),
        StructField("at", TimestampType()),
    ]
)
DDL = "id bigint, city string, lines array<int>, at timestamp"
AVRO = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "id", "type": "long"}, {"name": "city", "type": ["null", "string"]}],
    }
)


@pytest.fixture(scope="module")
def broker() -> Iterator[tidelog.Broker]:
    with tidelog.Broker() as running:
        with tidelog.Producer(bootstrap_servers=running.bootstrap_servers) as producer:
            for number in range(10):
                order = {"id": number, "city": "Vigo", "lines": [1, 2], "at": "2026-01-31T12:00:00Z", "other": {}}
                producer.send("json", b'{"id": "x"}' if number == 4 else json.dumps(order).encode(), b"k")
                producer.send("avro", b"\x80" if number == 4 else bytes([2 * number, 2, 8]) + b"Vigo")
        yield running


def rows(broker: tidelog.Broker, topic: str, schema: StructType, **options: str) -> list[dict[str, object]]:
    given = {
        "kafka.bootstrap.servers": broker.bootstrap_servers,
        "subscribe": topic,
        "valueFormat": topic,
        "valueSchema": DDL if topic == "json" else AVRO,
        **options,
    }
    reading = BatchReader(parse_read_options(given, streaming=False), schema)
    return [row for task in reading.partitions() for batch in reading.read(task) for row in batch.to_pylist()]


def test_json_is_a_struct_or_columns_and_bad_rows_are_null_dropped_or_named(broker: tidelog.Broker) -> None:
    struct = StructType([StructField("value", ORDER), StructField("offset", LongType())])
    flat = StructType([*ORDER.fields[:2], StructField("offset", LongType()), StructField("bad", BinaryType())])

    kept = rows(broker, "json", struct)
    dropped = rows(broker, "json", struct, mode="DROPMALFORMED")
    named = rows(broker, "json", flat, flatten="true", columnNameOfCorruptRecord="bad")

    assert [row["offset"] for row in kept if row["value"] is None] == [4]
    assert [row["offset"] for row in dropped] == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert {"id": 3, "city": "Vigo", "offset": 3, "bad": None} in named
    assert {"id": None, "city": None, "offset": 4, "bad": b'{"id": "x"}'} in named
    with pytest.raises(BadValue, match="The value of json-0 at offset 4 cannot be read: it is no JSON object"):
        rows(broker, "json", struct, mode="FAILFAST")


def test_a_query_that_asks_for_no_value_decodes_none(broker: tidelog.Broker) -> None:
    assert len(rows(broker, "json", StructType([StructField("offset", LongType())]), mode="FAILFAST")) == 10


def test_avro_has_the_columns_of_its_schema(broker: tidelog.Broker) -> None:
    flat = StructType([StructField("city", StringType()), StructField("partition", IntegerType())])

    found = rows(broker, "avro", flat, flatten="true")

    assert found.count({"city": "Vigo", "partition": 0}) == 9 and found.count({"city": None, "partition": 0}) == 1
    with pytest.raises(InvalidOption, match="Column 'city' of values is string"):
        rows(broker, "avro", StructType([StructField("city", LongType())]), flatten="true")
    with pytest.raises(InvalidOption, match="Column 'town' of values does not exist"):
        rows(broker, "avro", StructType([StructField("town", LongType())]), flatten="true")
    with pytest.raises(InvalidOption, match="no column 'city'; fields of values need option flatten"):
        rows(broker, "avro", flat)
    with pytest.raises(InvalidOption, match="is a struct where valueFormat is given"):
        rows(broker, "json", StructType([StructField("value", BinaryType())]))


def test_spark_is_told_the_columns_of_the_schema() -> None:
    options = {"valueFormat": "json", "valueSchema": DDL, "columns": "offset,value"}
    assert FoundSource(options).schema() == f"`offset` bigint, value STRUCT<{DDL}>"
    assert FoundSource({**options, "flatten": "true"}).schema() == f"`offset` bigint, {DDL}"
    told = FoundSource({"valueFormat": "avro", "valueSchema": AVRO, "columns": "value", "flatten": "true"}).schema()
    assert isinstance(told, StructType) and told.simpleString() == "struct<id:bigint,city:string>"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"valueFormat": "json"}, "needs a schema"),
        ({"valueFormat": "json", "valueSchema": "a int", "mode": "OTHER"}, "mode is one of PERMISSIVE"),
        ({"valueFormat": "json", "valueSchema": "a int", "valueWireFormat": "x"}, "a wire format is one of"),
        ({"valueFormat": "protobuf", "valueSchemaFile": "/nowhere.desc", "valueMessage": "m"}, "cannot be read"),
        ({"valueFormat": "json", "valueSchema": "a int", "valueMessage": "m"}, "and no other format"),
        ({"valueFormat": "json", "valueSchema": "a int", "mode": "FAILFAST", "columnNameOfCorruptRecord": "c"}, "k"),
        ({"flatten": "true"}, "Option flatten needs option valueFormat"),
    ],
)  # fmt: skip
def test_options_that_cannot_be_are_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidOption, match=said):
        parse_read_options({"kafka.bootstrap.servers": "x:1", "subscribe": "t", **options}, streaming=False)
