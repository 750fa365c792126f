"""Messages with random content, the same for the same seed: only fields that the version has are set, some tagged ones
keep their default, and what other libraries hold as enums, dates and durations stays within their ranges.
"""

from __future__ import annotations

from random import Random
from typing import Any
from uuid import UUID

from protocol_facts import FieldFact, declared_fact

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID
from tidelog.wire.schema import Message

INTEGERS = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
# Among them the longest whose length is one byte of a varint, a longer one, and one of several bytes per character.
TEXTS = ("", "a", "orders.v2", "x" * 126, "y" * 128, "Größe-日本-🌊")
TIMESTAMP_MS_MAX = 2**41


def random_message(message: type[Message], version: int, seed: int) -> Message:
    random = Random(f"{message.__name__} {version} {seed}")
    return _random_struct(message, declared_fact(message).fields, version, random)


def fields_in(fields: tuple[FieldFact, ...], version: int) -> list[FieldFact]:
    """The fields of one version in the order of declaration, tagged ones included."""
    return [field for field in fields if version in field.versions]


def default_of(field: FieldFact) -> Any:
    if field.default == "struct" and field.struct is not None:
        return field.struct()
    return list(field.default) if isinstance(field.default, list) else field.default


def _random_struct(struct: type[Message], fields: tuple[FieldFact, ...], version: int, random: Random) -> Message:
    values = {field.name: _random_field(field, version, random) for field in fields_in(fields, version)}
    return struct(**values)


def _random_field(field: FieldFact, version: int, random: Random) -> Any:
    if field.tag is not None and random.random() < 0.4:
        return default_of(field)
    if version in field.nullable and random.random() < 0.25:
        return None
    if not field.kind.startswith("[]"):
        return _random_element(field, field.kind, version, random)
    length = random.choice((0, 1, 1, 2, 3)) if field.struct or random.random() < 0.9 else 130
    return [_random_element(field, field.kind[2:], version, random) for _ in range(length)]


def _random_element(field: FieldFact, kind: str, version: int, random: Random) -> Any:
    match kind:
        case "struct":
            assert field.struct is not None
            return _random_struct(field.struct, field.fields, version, random)
        case "bool":
            return random.random() < 0.5
        case "string":
            return random.choice(TEXTS)
        case "bytes" | "records":
            return random.randbytes(random.choice((0, 1, 61, 126, 127, 128)))
        case "uuid":
            return random.choice((ZERO_UUID, UUID(int=random.getrandbits(128))))
        case "float64":
            return random.choice((0.0, -1.5, 1e300, random.random()))
        case "int16" if field.name.endswith("error_code"):
            return int(random.choice(list(ErrorCode)))
        case "int64" if field.name.endswith("_ms") or "timestamp" in field.name:
            return random.randrange(TIMESTAMP_MS_MAX)
        case _:
            first, last = INTEGERS[kind]
            return random.choice((first, last, 0, 1, random.randint(first, last)))
