"""Messages as the JSON that Apache Kafka's own tools print and read (`JsonConverter`): camel case names, binary as
Base64, tagged fields left out while they have their default.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode, urlsafe_b64decode, urlsafe_b64encode
from typing import Any
from uuid import UUID

from protocol_facts import FieldFact, declared_fact
from random_messages import default_of, fields_in

from tidelog.wire.schema import Message

UUID_PADDING = "=="


def to_kafka_json(message: Message, version: int) -> dict[str, Any]:
    return _struct_to_json(message, declared_fact(type(message)).fields, version)


def from_kafka_json(message: type[Message], version: int, value: dict[str, Any]) -> Message:
    return _struct_from_json(message, declared_fact(message).fields, version, value)


def camel_case(name: str) -> str:
    camel = re.sub(r"_(\w)", lambda match: match[1].upper(), name)
    return re.sub(r"^kraft", "kRaft", camel).replace("Kraft", "KRaft")


def _struct_to_json(struct: Message, fields: tuple[FieldFact, ...], version: int) -> dict[str, Any]:
    values = [(field, getattr(struct, field.name)) for field in fields_in(fields, version)]
    return {
        camel_case(field.name): _to_json(value, field, version)
        for field, value in values
        if field.tag is None or value != default_of(field)
    }


def _to_json(value: Any, field: FieldFact, version: int) -> Any:
    if value is None:
        return None
    if isinstance(value, list):
        return [_to_json(element, field, version) for element in value]
    if isinstance(value, Message):
        return _struct_to_json(value, field.fields, version)
    if isinstance(value, UUID):
        return urlsafe_b64encode(value.bytes).decode().removesuffix(UUID_PADDING)
    if isinstance(value, bytes | memoryview):
        return b64encode(value).decode()
    return value


def _struct_from_json(
    struct: type[Message], fields: tuple[FieldFact, ...], version: int, value: dict[str, Any]
) -> Message:
    known = {camel_case(field.name): field for field in fields_in(fields, version)}
    return struct(**{known[name].name: _from_json(inner, known[name], version) for name, inner in value.items()})


def _from_json(value: Any, field: FieldFact, version: int) -> Any:
    if value is None:
        return None
    if isinstance(value, list):
        return [_from_json(element, field, version) for element in value]
    match field.kind.removeprefix("[]"):
        case "struct":
            assert field.struct is not None
            return _struct_from_json(field.struct, field.fields, version, value)
        case "uuid":
            return UUID(bytes=urlsafe_b64decode(value + UUID_PADDING))
        case "bytes" | "records":
            return b64decode(value)
        case _:
            return value
