"""Keys and values as Avro, by fastavro: the bytes of one datum under a schema that both sides have."""

from __future__ import annotations

import io
from typing import Any

import fastavro


class AvroSerializer:
    """Writes and reads data of one schema. `reader_schema` is what comes out, where that differs from what went in."""

    def __init__(self, schema: str | dict[str, Any], reader_schema: str | dict[str, Any] | None = None) -> None:
        self._schema = _parsed(schema)
        self._reader_schema = None if reader_schema is None else _parsed(reader_schema)

    def serialize(self, topic: str, data: Any) -> bytes | None:
        if data is None:
            return None
        out = io.BytesIO()
        fastavro.schemaless_writer(out, self._schema, data)
        return out.getvalue()

    def deserialize(self, topic: str, data: bytes | None) -> Any:
        if data is None:
            return None
        return fastavro.schemaless_reader(io.BytesIO(data), self._schema, self._reader_schema)


def _parsed(schema: str | dict[str, Any]) -> Any:
    if isinstance(schema, str):
        import msgspec

        schema = msgspec.json.decode(schema)
    return fastavro.parse_schema(schema)
