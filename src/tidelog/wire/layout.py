"""What a message declaration says, as plain values: the fields of a class in the order of the wire.

Reads the annotations of `schema.py`; called by the code generators only, once per class.
"""

from __future__ import annotations

from functools import cache
from types import UnionType
from typing import Annotated, Any, Final, NamedTuple, TypeAlias, Union, get_args, get_origin

import msgspec

from tidelog.wire.schema import (
    ALWAYS,
    NEVER,
    Ignorable,
    Inflexible,
    Message,
    Nullable,
    Scalar,
    Since,
    Tag,
    Usual,
    VersionRange,
)

# How `struct` names each scalar that always has the same size.
FIXED_FORMATS: Final = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
# How the length before each other scalar is written, in older and in flexible versions.
LENGTH_FORMATS: Final = {"string": "h", "bytes": "i", "records": "i"}


class Array(NamedTuple):
    """A counted sequence."""

    element: Kind


class Nested(NamedTuple):
    """A struct within a message."""

    message: type[Message]


Kind: TypeAlias = Scalar | Array | Nested


class Field(NamedTuple):
    """One field of a struct, for all versions."""

    name: str
    kind: Kind
    versions: VersionRange
    nullable: VersionRange
    tag: Tag | None
    ignorable: bool
    inflexible: bool
    usual: int | None
    default: Any
    default_factory: Any

    def tag_in(self, version: int) -> int | None:
        """The field's tag number where it is a tagged field."""
        return self.tag.number if self.tag is not None and version in self.tag.versions else None

    def make_default(self) -> Any:
        return self.default_factory() if self.default_factory is not msgspec.NODEFAULT else self.default


class VersionedFields(NamedTuple):
    """The fields that one version has: in line, tagged (by number), and those that it lacks."""

    inline: tuple[Field, ...]
    tagged: tuple[tuple[int, Field], ...]
    absent: tuple[Field, ...]


@cache
def fields_of(message: type[Message]) -> tuple[Field, ...]:
    """All fields of a class, in declaration order, which is also the order of the wire."""
    return tuple(_field(message, info) for info in msgspec.structs.fields(message))


def fields_in(message: type[Message], version: int) -> VersionedFields:
    """Sort the fields of a class by what `version` does with them."""
    inline, tagged, absent = [], [], []
    for field in fields_of(message):
        number = field.tag_in(version)
        if version not in field.versions:
            absent.append(field)
        elif number is not None:
            tagged.append((number, field))
        else:
            inline.append(field)
    tagged.sort(key=lambda pair: pair[0])
    assert len({number for number, _ in tagged}) == len(tagged), f"{message.__name__} uses a tag twice"
    return VersionedFields(tuple(inline), tuple(tagged), tuple(absent))


def has_usual_shape(message: type[Message], version: int) -> bool:
    """Whether the declaration says how long some part of the message usually is."""
    for field in fields_in(message, version).inline:
        kind = field.kind.element if isinstance(field.kind, Array) else field.kind
        if field.usual is not None or (isinstance(kind, Nested) and has_usual_shape(kind.message, version)):
            return True
    return False


def is_flexible(message: type[Message], version: int) -> bool:
    """Whether a top-level message has compact lengths and tagged fields in this version (KIP-482)."""
    return version in VersionRange.parse(message.FLEXIBLE)


def _field(message: type[Message], info: msgspec.structs.FieldInfo) -> Field:
    where = f"{message.__name__}.{info.name}"
    marks: list[Any] = []
    kind = _kind(info.type, marks, where)
    tag = next((mark for mark in marks if isinstance(mark, Tag)), None)
    versions = next((mark.versions for mark in marks if isinstance(mark, Since)), tag.versions if tag else ALWAYS)
    nullable = next((mark.versions for mark in marks if isinstance(mark, Nullable)), NEVER)
    assert info.default is not msgspec.NODEFAULT or info.default_factory is not msgspec.NODEFAULT, (
        f"{where} has no default"
    )
    return Field(
        name=info.name,
        kind=kind,
        versions=versions,
        nullable=nullable,
        tag=tag,
        ignorable=any(isinstance(mark, Ignorable) for mark in marks),
        inflexible=any(isinstance(mark, Inflexible) for mark in marks),
        usual=next((mark.length for mark in marks if isinstance(mark, Usual)), None),
        default=info.default,
        default_factory=info.default_factory,
    )


def _kind(annotation: Any, marks: list[Any], where: str) -> Kind:
    """Take an annotation apart, adding the marks found on the way to `marks`."""
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *extras = get_args(annotation)
        scalar = next((extra for extra in extras if isinstance(extra, Scalar)), None)
        marks.extend(extra for extra in extras if extra is not scalar)
        if scalar is not None:
            assert scalar.name in FIXED_FORMATS or scalar.name in LENGTH_FORMATS, f"{where}: no scalar {scalar.name}"
            return scalar
        return _kind(inner, marks, where)
    if origin is Union or origin is UnionType:
        choices = [choice for choice in get_args(annotation) if choice is not type(None)]
        assert len(choices) == 1, f"{where}: only `T | None` has an encoding"
        return _kind(choices[0], marks, where)
    if origin is list:
        return Array(_kind(get_args(annotation)[0], [], where))
    assert isinstance(annotation, type) and issubclass(annotation, Message), f"{where}: {annotation} has no encoding"
    return Nested(annotation)
