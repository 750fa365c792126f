"""The columns of a topic as Spark sees them: names and types of Spark's Kafka connector, and which of ours they are.

`source.py` hands the schema to Spark; the readers ask here how an Arrow batch of the client becomes one of Spark's.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from tidelog.spark.errors import InvalidOption
from tidelog.wire.columns import layout

HEADERS_TYPE: Final = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())]), containsNull=True
)
TYPES: Final[dict[str, DataType]] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": HEADERS_TYPE,
}
# What the client's Arrow reader calls them.
OURS: Final = {
    "key": layout.KEY,
    "value": layout.VALUE,
    "topic": layout.TOPIC,
    "partition": layout.PARTITION,
    "offset": layout.OFFSET,
    "timestamp": layout.TIMESTAMP,
    "timestampType": layout.TIMESTAMP_TYPE,
    "headers": layout.HEADERS,
}
ARROW_TYPES: Final = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestampType": pa.int32(),
    "headers": pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())]))),
}


def full_schema(include_headers: bool) -> StructType:
    """All columns, those that Spark's connector has."""
    names = [name for name in TYPES if include_headers or name != "headers"]
    return StructType([StructField(name, TYPES[name]) for name in names])


def chosen_schema(columns: str) -> StructType:
    """The columns that option `columns` names, in its order."""
    names = [name.strip() for name in columns.split(",") if name.strip()]
    by_lower = {name.lower(): name for name in TYPES}
    for name in names:
        if name.lower() not in by_lower:
            raise InvalidOption(f"Option columns names '{name}'; a topic has the columns {', '.join(TYPES)}.")
    if not names:
        raise InvalidOption(f"Option columns names none; a topic has the columns {', '.join(TYPES)}.")
    return StructType([StructField(by_lower[name.lower()], TYPES[by_lower[name.lower()]]) for name in names])


def check_schema(schema: StructType) -> list[str]:
    """The columns of a schema that a user gave. InvalidOption for one that a topic does not have."""
    for field in schema.fields:
        expected = TYPES.get(field.name)
        if expected is None:
            raise InvalidOption(f"A topic has no column '{field.name}'; it has {', '.join(TYPES)}.")
        if field.dataType.simpleString() != expected.simpleString():
            found, right = field.dataType.simpleString(), expected.simpleString()
            raise InvalidOption(f"Column '{field.name}' is {right}, not {found}: cast it after reading.")
    return schema.fieldNames()


def for_spark(batch: Any, names: list[str]) -> Any:
    """A batch of the client's reader with Spark's names and types. Bytes are not copied; times become microseconds."""
    arrays = []
    for name in names:
        array = batch.column(OURS[name])
        wanted = ARROW_TYPES[name]
        array = array if array.type == wanted else array.cast(wanted)
        arrays.append(_null_where_empty(array) if name == "headers" else array)
    fields = [pa.field(name, ARROW_TYPES[name]) for name in names]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _null_where_empty(lists: Any) -> Any:
    """As in Spark's connector, a record without headers has null there, not a list of none."""
    # Only where headers are asked for: Arrow's functions take as long to load as the whole of the client.
    import pyarrow.compute as pc  # type: ignore[import-untyped]

    return pc.if_else(pc.equal(pc.list_value_length(lists), 0), pa.scalar(None, lists.type), lists)
