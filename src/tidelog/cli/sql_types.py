"""Columns that are written in SQL (`id bigint, city string, lines array<int>`) as an Arrow struct.

For `tidelog sql` with DuckDB; Spark reads the same text by itself. Needs `tidelog[sql]`.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]

from tidelog.cli.failures import BadInput

# By sqlglot's names of types in Spark's dialect.
_SIMPLE: Final = {
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "TEXT": pa.string(),
    "VARCHAR": pa.string(),
    "BINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us"),
    "TIMESTAMPTZ": pa.timestamp("us", "UTC"),
    "TIMESTAMPLTZ": pa.timestamp("us", "UTC"),
    "TIMESTAMPNTZ": pa.timestamp("us"),
}


def struct_of(columns: str) -> Any:
    """The pyarrow.StructType; BadInput for what is no list of columns."""
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    try:
        found = exp.DataType.build(f"STRUCT<{columns}>", dialect="spark")
    except SqlglotError:
        raise BadInput(f"'{columns}' are no columns: write them as id bigint, city string.") from None
    return _type(found)


def _type(type_: Any) -> Any:
    kind = type_.this.value
    inner = type_.expressions
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    match kind:
        case "DECIMAL":
            digits = [int(parameter.name) for parameter in inner]
            return pa.decimal128(digits[0] if digits else 10, digits[1] if len(digits) > 1 else 0)
        case "ARRAY" | "LIST":
            return pa.list_(_type(inner[0]))
        case "MAP":
            return pa.map_(_type(inner[0]), _type(inner[1]))
        case "STRUCT":
            return pa.struct([pa.field(column.name, _type(column.kind)) for column in inner])
    raise BadInput(f"Values cannot have columns of type {type_.sql('spark')}.")
