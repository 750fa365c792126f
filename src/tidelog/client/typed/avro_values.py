"""Avro to columns, by fastavro: one datum for each value, written with the schema that is given.

There is a Python object for each record on the way: of the libraries that can be had without a JVM only Polars makes
none, and it panics on bytes that are broken.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]

from tidelog.client.typed.decoding import TypedValues
from tidelog.client.typed.format import InvalidFormat

_PRIMITIVES: Final = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
# Others are read as what they are made of, as the specification allows.
_LOGICAL: Final = {
    ("int", "date"): pa.date32(),
    ("long", "timestamp-millis"): pa.timestamp("us", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("us"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
}
DECIMAL_DIGITS_MAX: Final = 38


class AvroDecoder:
    """Data of one schema, a record."""

    def __init__(self, schema: str) -> None:
        try:
            import fastavro
        except ImportError:
            raise InvalidFormat("Avro needs a library: pip install 'tidelog[avro]'") from None
        try:
            tree = json.loads(schema)
        except json.JSONDecodeError as error:
            raise InvalidFormat(f"the Avro schema is no JSON: {error}") from None
        self.type = _Types().of(tree)
        if not pa.types.is_struct(self.type):
            raise InvalidFormat("the Avro schema is no record")
        try:
            self._schema = fastavro.parse_schema(tree)
        except (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType) as error:
            raise InvalidFormat(f"the Avro schema cannot be used: {error}") from None
        self._read = fastavro.schemaless_reader

    def decode(self, packed: Any) -> TypedValues:
        bad: dict[int, str] = {}
        rows = [self._datum(row, raw, bad) for row, raw in enumerate(packed.to_pylist())]
        return TypedValues(pa.array(rows, self.type), bad)

    def _datum(self, row: int, raw: bytes, bad: dict[int, str]) -> Any:
        source = io.BytesIO(raw)
        try:
            datum = self._read(source, self._schema)
        # What broken bytes raise depends on where they break: struct, index, value, end of file, memory.
        except Exception as error:
            bad[row] = f"it is no Avro of the schema: {str(error) or type(error).__name__}"
            return None
        if source.tell() != len(raw):
            bad[row] = f"it is no Avro of the schema: {len(raw) - source.tell()} bytes follow the record"
            return None
        return datum


class _Types:
    """The Arrow type of a schema. Takes away logical types that nothing here knows, so that both sides agree."""

    def __init__(self) -> None:
        self._named: dict[str, Any] = {}

    def of(self, schema: Any) -> Any:
        match schema:
            case str() if schema in _PRIMITIVES:
                return _PRIMITIVES[schema]
            case str() if schema in self._named:
                if self._named[schema] is None:
                    raise InvalidFormat(f"the Avro record {schema} holds itself, which no column can")
                return self._named[schema]
            case [*branches]:
                others = [branch for branch in branches if branch != "null"]
                if len(others) != 1:
                    raise InvalidFormat(f"the Avro union {branches} is more than one type or null")
                return self.of(others[0])
            case {"type": "record"}:
                return self._record(schema)
            case {"type": "enum"}:
                return self._name(schema, pa.string())
            case {"type": "fixed"}:
                return self._name(schema, self._decimal(schema) or pa.binary())
            case {"type": "array", "items": items}:
                return pa.list_(self.of(items))
            case {"type": "map", "values": values}:
                return pa.map_(pa.string(), self.of(values))
            case {"type": "bytes"}:
                return self._decimal(schema) or pa.binary()
            case {"type": str(kind)} if kind in _PRIMITIVES:
                known = _LOGICAL.get((kind, schema.get("logicalType")))
                if known is None:
                    schema.pop("logicalType", None)
                return known or _PRIMITIVES[kind]
            case {"type": inner}:
                return self.of(inner)
        raise InvalidFormat(f"the Avro schema has no type {schema}")

    def _record(self, schema: Mapping[str, Any]) -> Any:
        name = str(schema.get("name", ""))
        self._named[name] = None
        fields = [pa.field(field["name"], self.of(field["type"])) for field in schema.get("fields", [])]
        return self._name(schema, pa.struct(fields))

    def _name(self, schema: Mapping[str, Any], type_: Any) -> Any:
        name = str(schema.get("name", ""))
        self._named[name] = type_
        if "namespace" in schema:
            self._named[f"{schema['namespace']}.{name}"] = type_
        return type_

    def _decimal(self, schema: Any) -> Any:
        digits = schema.get("precision", 0)
        if schema.get("logicalType") == "decimal" and 0 < digits <= DECIMAL_DIGITS_MAX:
            return pa.decimal128(digits, schema.get("scale", 0))
        schema.pop("logicalType", None)
        return None
