"""kio as an oracle: one class per message and version, fields in wire order, types richer than the wire's."""

from __future__ import annotations

import dataclasses
import io
from datetime import UTC, datetime, timedelta
from functools import cache
from pkgutil import resolve_name
from typing import Any, get_args, get_origin

from kio.schema.errors import ErrorCode
from kio.schema.index import schema_name_map
from kio.serial import entity_writer
from protocol_facts import FieldFact, declared_fact
from random_messages import fields_in

from tidelog.model.ids import ZERO_UUID
from tidelog.wire.schema import Message

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def knows(name: str, version: int) -> bool:
    return (name, version) in _paths()


def encoded(message: Message, version: int) -> bytes:
    entity = resolve_name(_paths()[type(message).__name__, version])
    out = io.BytesIO()
    entity_writer(entity)(out, _as_entity(message, entity, declared_fact(type(message)).fields, version))
    return out.getvalue()


@cache
def _paths() -> dict[tuple[str, int], str]:
    """Where the class of each message and version is."""
    return {
        (path.partition(":")[2], version): path
        for versions in schema_name_map.values()
        for version, kinds in versions.items()
        for path in kinds.values()
    }


def _as_entity(message: Message, entity: type[Any], fields: tuple[FieldFact, ...], version: int) -> Any:
    pairs = zip(dataclasses.fields(entity), fields_in(fields, version), strict=True)
    return entity(**{theirs.name: _value(getattr(message, ours.name), theirs, ours, version) for theirs, ours in pairs})


def _value(value: Any, theirs: dataclasses.Field[Any], ours: FieldFact, version: int) -> Any:
    if value is None:
        return None
    if isinstance(value, list):
        return tuple(_value(element, theirs, ours, version) for element in value)
    if isinstance(value, Message):
        return _as_entity(value, _entity_in(theirs.type), ours.fields, version)
    match theirs.metadata["kafka_type"]:
        case "error_code":
            return ErrorCode(value)
        case "timedelta_i32" | "timedelta_i64":
            return timedelta(milliseconds=value)
        case "datetime_i64":
            return EPOCH + timedelta(milliseconds=value)
        case "uuid":
            return None if value == ZERO_UUID else value
        case _:
            return value


def _entity_in(annotation: Any) -> type[Any]:
    """The class within `X`, `X | None`, `tuple[X, ...]` and `tuple[X, ...] | None`."""
    if get_origin(annotation) is None:
        assert dataclasses.is_dataclass(annotation) and isinstance(annotation, type)
        return annotation
    inner = [choice for choice in get_args(annotation) if choice not in (type(None), ...)]
    return _entity_in(inner[0])
