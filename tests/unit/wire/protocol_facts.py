"""Two views of the same protocol as comparable values: the published facts (`tests/data/protocol/*.jsonl`) and what the
classes in `tidelog.wire.messages` declare. Reads annotations itself, so as not to share a mistake with the compiler.

Both views are reduced to what can reach the wire: a range of versions is cut to the versions in which the enclosing
struct exists, and a field that is left with none is no field.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import pkgutil
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec

import tidelog.wire.messages
from tidelog.model.ids import ZERO_UUID
from tidelog.wire.schema import Ignorable, Inflexible, Message, Nullable, Scalar, Since, Tag, VersionRange

FACTS = Path(__file__).parents[2] / "data" / "protocol"
FACT_FILES = ("rpc.jsonl", "zookeeper_era_rpc.jsonl", "metadata_records.jsonl", "coordinator_records.jsonl")

Json = dict[str, Any]
Versions = frozenset[int]


@dataclass(frozen=True)
class FieldFact:
    """One field as the wire sees it. `default` is a Python value, or `"struct"` for a nested struct of defaults.

    `struct` is the declared class of a nested struct; what it is called is our own choice and not compared.
    """

    name: str
    kind: str
    versions: Versions
    nullable: Versions
    tag: int | None
    ignorable: bool
    inflexible: bool
    default: object
    fields: tuple[FieldFact, ...]
    struct: type[Message] | None = dataclasses.field(default=None, compare=False)


@dataclass(frozen=True)
class MessageFact:
    name: str
    kind: str
    key: int
    versions: Versions
    flexible: Versions
    fields: tuple[FieldFact, ...]


def snake_case(name: str) -> str:
    """`TopicId` -> `topic_id`; KRaft is one word."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.replace("KRaft", "Kraft")).lower()


def published_messages() -> dict[str, Json]:
    """Every line of the fact files by message name."""
    lines = [line for file in FACT_FILES for line in (FACTS / file).read_text().splitlines()]
    messages = [json.loads(line) for line in lines]
    assert len({message["name"] for message in messages}) == len(messages)
    return {message["name"]: message for message in messages}


@cache
def declared_messages() -> dict[str, type[Message]]:
    """Every top-level class of every module in `tidelog.wire.messages` by name."""
    found: dict[str, type[Message]] = {}
    for info in pkgutil.iter_modules(tidelog.wire.messages.__path__):
        module = importlib.import_module(f"tidelog.wire.messages.{info.name}")
        for name, value in vars(module).items():
            is_class = isinstance(value, type) and issubclass(value, Message) and value.__module__ == module.__name__
            if is_class and "VERSIONS" in vars(value):
                assert name not in found, f"{name} is declared twice"
                found[name] = value
    return found


# The published view.


def published_fact(message: Json) -> MessageFact:
    structs = {struct["name"]: struct["fields"] for struct in message.get("structs", [])}
    versions = _versions(message["versions"])
    return MessageFact(
        name=message["name"],
        kind=message["kind"] if message["kind"] in ("request", "response") else "data",
        key=message.get("key", -1),
        versions=versions,
        flexible=_versions(message["flexible"]) & versions,
        fields=_published_fields(message["fields"], structs, versions),
    )


def _published_fields(fields: list[Json], structs: dict[str, list[Json]], around: Versions) -> tuple[FieldFact, ...]:
    return tuple(
        fact for field in fields if (fact := _published_field(field, structs, around)) is not None
    )  # A field without a version left is none.


def _published_field(field: Json, structs: dict[str, list[Json]], around: Versions) -> FieldFact | None:
    versions = _versions(field["versions"]) & around
    tagged = _versions(field.get("tagged", "none")) & versions
    ignorable = bool(field.get("ignorable"))
    if tagged and tagged != versions:
        # Apache Kafka writes such a field in the tagged versions only, and drops it silently in the others.
        versions, ignorable = tagged, True
    if not versions:
        return None
    element = field["type"].removeprefix("[]")
    is_struct = element[0].isupper()
    nullable = _versions(field.get("nullable", "none")) & versions
    return FieldFact(
        name=snake_case(field["name"]),
        kind=field["type"].replace(element, "struct") if is_struct else field["type"],
        versions=versions,
        nullable=nullable,
        tag=field.get("tag", 0) if tagged else None,
        ignorable=ignorable and versions != around,
        inflexible=field.get("flexible") == "none",
        default=_published_default(field, bool(nullable)),
        fields=_published_fields(field.get("fields") or structs[element], structs, versions) if is_struct else (),
    )


def _published_default(field: Json, is_nullable: bool) -> object:
    kind, default = field["type"], field.get("default")
    if default == "null":
        return None
    if kind.startswith("[]"):
        return []
    if kind[0].isupper():
        return "struct"
    match kind:
        case "string":
            return default or ""
        case "bytes":
            return b""
        case "records":
            return None if is_nullable else b""
        case "uuid":
            return ZERO_UUID
        case "bool":
            return default == "true"
        case "float64":
            return float(default or 0)
        case _:
            return default if isinstance(default, int) else int(default or "0", 0)


def _versions(text: str) -> Versions:
    # No message has had anywhere near a hundred versions.
    versions = VersionRange.parse(text)
    return frozenset(range(versions.first, min(versions.last, 99) + 1))


# The declared view.


@cache
def declared_fact(message: type[Message]) -> MessageFact:
    versions = _versions(message.VERSIONS)
    base = message.__mro__[1].__name__
    return MessageFact(
        name=message.__name__,
        kind=base.lower() if base in ("Request", "Response") else "data",
        key=message.API_KEY,
        versions=versions,
        flexible=_versions(message.FLEXIBLE) & versions,
        fields=_declared_fields(message, versions),
    )


def _declared_fields(message: type[Message], around: Versions) -> tuple[FieldFact, ...]:
    hints = get_type_hints(message, include_extras=True)
    facts = [
        _declared_field(name, hints[name], default, around)
        for name, default in zip(message.__struct_fields__, _defaults(message), strict=True)
    ]
    return tuple(fact for fact in facts if fact.versions)


def _defaults(message: type[Message]) -> list[object]:
    instance = message()  # Fails unless every field has a default.
    return [getattr(instance, name) for name in message.__struct_fields__]


def _declared_field(name: str, hint: Any, default: object, around: Versions) -> FieldFact:
    marks: list[object] = []
    kind, inner, may_be_none = _take_apart(hint, marks)
    tag = next((mark for mark in marks if isinstance(mark, Tag)), None)
    since = next((mark for mark in marks if isinstance(mark, Since)), None)
    nulls = next((mark for mark in marks if isinstance(mark, Nullable)), None)
    assert not (tag and since), f"{name}: a tag says already where the field exists"
    assert may_be_none == (nulls is not None), f"{name}: `| None` and nullable() go together"
    where = tag.versions if tag else since.versions if since else VersionRange.parse("0+")
    versions = frozenset(version for version in around if version in where)
    ignorable = any(isinstance(mark, Ignorable) for mark in marks)
    return FieldFact(
        name=name,
        kind=kind,
        versions=versions,
        nullable=frozenset(version for version in versions if nulls and version in nulls.versions),
        tag=tag.number if tag else None,
        ignorable=ignorable and versions != around,
        inflexible=any(isinstance(mark, Inflexible) for mark in marks),
        default="struct" if isinstance(default, Message) and default == type(default)() else default,
        fields=_declared_fields(inner, versions) if inner else (),
        struct=inner,
    )


def _take_apart(hint: Any, marks: list[object]) -> tuple[str, type[Message] | None, bool]:
    """The published type name, the struct within, and whether None is allowed; marks are added to `marks`."""
    origin = get_origin(hint)
    if origin is Annotated:
        inner, *extras = get_args(hint)
        scalars = [extra for extra in extras if isinstance(extra, Scalar)]
        marks.extend(extra for extra in extras if not isinstance(extra, Scalar))
        return (scalars[0].name, None, False) if scalars else _take_apart(inner, marks)
    if origin in (Union, UnionType):
        (inner,) = [choice for choice in get_args(hint) if choice is not NoneType]
        kind, struct, _ = _take_apart(inner, marks)
        return kind, struct, True
    if origin is list:
        kind, struct, _ = _take_apart(get_args(hint)[0], [])
        return f"[]{kind}", struct, False
    assert issubclass(hint, msgspec.Struct)
    return "struct", hint, False


# Comparing.


def differences(published: object, declared: object, path: str = "") -> list[str]:
    """Every place where two facts differ, as sentences; empty when they agree."""
    if isinstance(published, tuple) and isinstance(declared, tuple):
        names = [field.name for field in published], [field.name for field in declared]
        if names[0] != names[1]:
            return [f"{path}: fields are {names[1]}, published {names[0]}"]
        pairs = zip(published, declared, strict=True)
        return [line for one, other in pairs for line in differences(one, other, f"{path}.{one.name}")]
    if isinstance(published, MessageFact | FieldFact) and isinstance(declared, MessageFact | FieldFact):
        path = path or published.name
        compared = [fact.name for fact in dataclasses.fields(published) if fact.compare]
        return [
            line
            for name in compared
            for line in differences(
                getattr(published, name), getattr(declared, name), path if name == "fields" else f"{path}:{name}"
            )
        ]
    same = type(published) is type(declared) and published == declared
    return [] if same else [f"{path} is {declared!r}, published {published!r}"]
