"""kafka-python as an oracle: its encoder, from its own copy of the protocol's definitions."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from kafka.protocol.schemas import StructField, load_json
from protocol_facts import FieldFact, declared_fact
from random_messages import default_of, fields_in

from tidelog.wire.schema import Message


def knows(name: str, version: int) -> bool:
    struct = _struct(name)
    return struct is not None and struct.min_version <= version <= struct.max_version


def encoded(message: Message, version: int) -> bytes:
    struct = _struct(type(message).__name__)
    assert struct is not None
    fact = declared_fact(type(message))
    flexible = version in fact.flexible
    # Like its own header class: the one string of the headers is never compact.
    compact = flexible and not any(field.inflexible for field in fact.fields)
    value = _as_dict(message, fact.fields, version)
    return bytes(struct.encode(value, version=version, compact=compact, tagged=flexible))


@cache
def _struct(name: str) -> Any:
    """The definition itself: the public classes patch some fields into types of their own."""
    try:
        return StructField(load_json(name))
    except FileNotFoundError:
        return None


def _as_dict(message: Message, fields: tuple[FieldFact, ...], version: int) -> dict[str, Any]:
    present = [(field, getattr(message, field.name)) for field in fields_in(fields, version)]
    inline = [(field, value) for field, value in present if field.tag is None]
    # It writes tagged fields in the order of the dict, and takes an absent one for the default.
    tagged = [(field, value) for field, value in present if field.tag is not None and value != default_of(field)]
    tagged.sort(key=lambda pair: pair[0].tag or 0)
    return {_name(field.name): _value(value, field, version) for field, value in inline + tagged}


def _value(value: Any, field: FieldFact, version: int) -> Any:
    if isinstance(value, list):
        return [_value(element, field, version) for element in value]
    if isinstance(value, Message):
        return _as_dict(value, field.fields, version)
    return value


def _name(name: str) -> str:
    return re.sub(r"(^|_)kraft", r"\1k_raft", name)
