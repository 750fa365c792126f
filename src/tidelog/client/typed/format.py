"""How the values of a topic are written: format, schema, and whether a registry's prefix stands before each.

Read from options by Spark's source and from views by `tidelog sql`; `decoding.py` makes a decoder of it. Pure but for
the schema's file.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

JSON: Final = "json"
AVRO: Final = "avro"
PROTOBUF: Final = "protobuf"
FORMATS: Final = (JSON, AVRO, PROTOBUF)
PLAIN: Final = "plain"
CONFLUENT: Final = "confluent"
WIRE_FORMATS: Final = (PLAIN, CONFLUENT)


class InvalidFormat(ValueError):
    """A format or schema that cannot be used; the text says why."""


@dataclass(frozen=True, slots=True)
class ValueFormat:
    """JSON: `schema` is a list of columns in SQL (`id bigint, city string`). Avro: `schema` is the schema's JSON.
    Protobuf: `descriptors` is what `protoc --descriptor_set_out --include_imports` writes, `message` the full name."""

    name: str
    schema: str = ""
    descriptors: bytes = b""
    message: str = ""
    has_registry_prefix: bool = False


def value_format(name: str, schema: str | None, schema_file: str | None, message: str | None, wire: str) -> ValueFormat:
    """Check what somebody wrote, and read the file if there is one. InvalidFormat says what is wrong."""
    if name not in FORMATS:
        raise InvalidFormat(f"a format is one of {', '.join(FORMATS)}, not '{name}'")
    if wire not in WIRE_FORMATS:
        raise InvalidFormat(f"a wire format is one of {', '.join(WIRE_FORMATS)}, not '{wire}'")
    if (schema is None) == (schema_file is None):
        raise InvalidFormat(f"{name} needs a schema, as text or as a file" + ("" if schema is None else ", not both"))
    if (message is not None) != (name == PROTOBUF):
        raise InvalidFormat("protobuf, and no other format, needs the name of a message")
    try:
        content = Path(schema_file).read_bytes() if schema_file is not None else b""
    except OSError as error:
        raise InvalidFormat(f"the schema in {schema_file} cannot be read: {error.strerror}") from None
    if name == PROTOBUF:
        if schema_file is None:
            raise InvalidFormat("protobuf needs a file that protoc wrote with --descriptor_set_out --include_imports")
        return ValueFormat(name, descriptors=content, message=message or "", has_registry_prefix=wire == CONFLUENT)
    try:
        text = content.decode() if schema is None else schema
    except UnicodeDecodeError:
        raise InvalidFormat(f"the schema in {schema_file} is no text") from None
    return ValueFormat(name, schema=text, has_registry_prefix=wire == CONFLUENT)
