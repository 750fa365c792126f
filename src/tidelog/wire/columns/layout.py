"""The columns of a topic: their names, Arrow types and order. A reader may ask for some of them only."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]

KEY: Final = "key"
VALUE: Final = "value"
HEADERS: Final = "headers"
TIMESTAMP: Final = "timestamp"
TIMESTAMP_TYPE: Final = "timestamp_type"
OFFSET: Final = "offset"
PARTITION: Final = "partition"
TOPIC: Final = "topic"

HEADER_TYPE: Final = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])

FIELDS: Final = {
    field.name: field
    for field in (
        pa.field(TOPIC, pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field(PARTITION, pa.int32(), nullable=False),
        pa.field(OFFSET, pa.int64(), nullable=False),
        # Null where the record has none (-1 on the wire).
        pa.field(TIMESTAMP, pa.timestamp("ms", "UTC")),
        # 0: the producer's time (CreateTime), 1: the broker's (LogAppendTime).
        pa.field(TIMESTAMP_TYPE, pa.int32(), nullable=False),
        pa.field(KEY, pa.binary()),
        pa.field(VALUE, pa.binary()),
        pa.field(HEADERS, pa.list_(pa.field("item", HEADER_TYPE, nullable=False)), nullable=False),
    )
}

ALL_COLUMNS: Final = tuple(FIELDS)
# What the bytes of a partition hold by themselves.
RECORD_COLUMNS: Final = tuple(name for name in FIELDS if name not in (TOPIC, PARTITION))


def schema_of(columns: Sequence[str]) -> Any:
    """The Arrow schema of these columns, in this order. ValueError for one that a topic does not have."""
    return _schema(tuple(columns))


@cache
def _schema(columns: tuple[str, ...]) -> Any:
    for name in columns:
        if name not in FIELDS:
            raise ValueError(f"A topic has no column '{name}': it has {', '.join(FIELDS)}.")
    return pa.schema([FIELDS[name] for name in columns])
