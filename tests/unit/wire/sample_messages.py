"""Small messages that between them use every feature of the vocabulary, and hypothesis strategies for their content."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

import msgspec
from hypothesis import strategies as st

from tidelog.model.ids import ZERO_UUID
from tidelog.wire.layout import Array, Field, Kind, Nested, fields_in
from tidelog.wire.schema import (
    Message,
    Response,
    Scalar,
    VersionRange,
    bool_,
    bytes_,
    float64,
    ignorable,
    inflexible,
    int8,
    int16,
    int32,
    int64,
    nullable,
    records,
    since,
    string,
    tag,
    uint16,
    uint32,
    usually,
    uuid,
)

SOME_UUID = UUID("0123456789abcdef0123456789abcdef")


class Scalars(Message):
    """v0 old, v1 flexible."""

    VERSIONS = "0-1"
    FLEXIBLE = "1+"

    flag: bool_ = False
    tiny: int8 = 0
    short: int16 = 0
    port: uint16 = 0
    number: int32 = 0
    crc: uint32 = 0
    long: int64 = 0
    ratio: float64 = 0.0
    name: string = ""
    id: uuid = ZERO_UUID
    content: bytes_ = b""
    batches: Annotated[records | None, nullable("0+")] = None


class Inner(Message):
    name: string = ""
    number: int32 = 7


class Nullables(Message):
    """Everything that may be null, but in v0; flexible from v2."""

    VERSIONS = "0-2"
    FLEXIBLE = "2+"

    text: Annotated[string | None, nullable("1+")] = ""
    content: Annotated[bytes_ | None, nullable("1+")] = b""
    numbers: Annotated[list[int32] | None, nullable("1+")] = []
    inner: Annotated[Inner | None, nullable("1+")] = msgspec.field(default_factory=Inner)
    inners: Annotated[list[Inner] | None, nullable("1+")] = []
    after: int16 = 0


class Leaf(Message):
    flags: list[bool_] = []
    ids: list[uuid] = []
    added: Annotated[int16, since("1+"), ignorable] = -1


class Branch(Message):
    name: string = ""
    leaves: list[Leaf] = []
    single: Leaf = msgspec.field(default_factory=Leaf)


class Arrays(Message):
    """Arrays of everything, nested; flexible from v2."""

    VERSIONS = "0-2"
    FLEXIBLE = "2+"

    names: list[string] = []
    longs: list[int64] = []
    blobs: list[bytes_] = []
    branches: list[Branch] = []
    dropped: Annotated[list[int32], since("0-1")] = []
    last: string = ""


class Tagged(Message):
    """Flexible from v1; the tagged fields are declared in another order than they are numbered."""

    VERSIONS = "0-2"
    FLEXIBLE = "1+"

    number: int32 = 0
    leader: Annotated[Inner, tag(2, "1+"), ignorable] = msgspec.field(default_factory=Inner)
    nodes: Annotated[list[Inner], tag(1, "1+"), ignorable] = []
    label: Annotated[string | None, tag(0, "1+"), nullable("1+"), ignorable] = None
    reason: Annotated[string | None, tag(3, "2+"), nullable("2+"), ignorable] = "unknown"
    epoch: Annotated[int64, tag(300, "1+"), ignorable] = -1
    blob: Annotated[bytes_, tag(301, "1+"), ignorable] = b""
    maybe: Annotated[Inner | None, tag(302, "1+"), nullable("1+"), ignorable] = None
    trailing: string = ""


class Evolving(Message):
    """Fields come and go; v2 lacks the first two."""

    VERSIONS = "0-3"
    FLEXIBLE = "3+"

    strict: Annotated[int32, since("0-1")] = -1
    lenient: Annotated[string, since("0-1"), ignorable] = "none"
    topics: Annotated[list[string], since("2+")] = []
    topic_id: Annotated[uuid, since("3+")] = ZERO_UUID
    client_id: Annotated[string | None, nullable("0+"), inflexible] = None


class Empty(Message):
    """A struct that has nothing in v0."""

    later: Annotated[int8, since("1+")] = 0


class Empties(Message):
    VERSIONS = "0-1"

    items: list[Empty] = []


class PlainPartition(Message):
    index: int32 = 0
    errors: list[Inner] = []
    aborted: Annotated[list[int64] | None, nullable("0+")] = []
    message: Annotated[string | None, nullable("0+")] = None
    cursor: Annotated[Inner | None, nullable("0+")] = None
    leader: Annotated[Inner, tag(0, "2+"), ignorable] = msgspec.field(default_factory=Inner)
    content: Annotated[records | None, nullable("0+")] = None
    own: Inner = msgspec.field(default_factory=Inner)


class PlainTopic(Message):
    name: string = ""
    id: Annotated[uuid, since("1+")] = ZERO_UUID
    partitions: Annotated[list[PlainPartition] | None, nullable("0+")] = []


class Plain(Response):
    """The same as Usual, without a usual shape."""

    VERSIONS = "0-2"
    FLEXIBLE = "2+"

    transaction: Annotated[string | None, nullable("0+")] = None
    acks: int16 = 0
    topics: list[PlainTopic] = []
    rack: string = ""


class UsualTopic(Message):
    name: string = ""
    id: Annotated[uuid, since("1+")] = ZERO_UUID
    partitions: Annotated[list[PlainPartition] | None, nullable("0+"), usually(1)] = []


class Usual(Response):
    VERSIONS = "0-2"
    FLEXIBLE = "2+"

    transaction: Annotated[string | None, nullable("0+")] = None
    acks: int16 = 0
    topics: Annotated[list[UsualTopic], usually(1)] = []
    rack: Annotated[string, usually(0)] = ""


class UsualWithoutBytes(Response):
    """A usual shape whose frame length is known before anything is written."""

    VERSIONS = "0-1"
    FLEXIBLE = "1+"

    name: string = ""
    host: string = ""
    inners: Annotated[list[Inner], usually(1)] = []
    numbers: Annotated[list[int16] | None, nullable("0+")] = []


SAMPLES: tuple[type[Message], ...] = (
    Scalars,
    Nullables,
    Arrays,
    Tagged,
    Evolving,
    Empties,
    Plain,
    Usual,
    UsualWithoutBytes,
)


def versions_of(message: type[Message]) -> range:
    first, last = VersionRange.parse(message.VERSIONS)
    return range(first, last + 1)


SAMPLE_VERSIONS = [(message, version) for message in SAMPLES for version in versions_of(message)]

# Short ones and the lengths around which a varint grows.
TEXTS = st.one_of(
    st.text(st.characters(codec="utf-8"), max_size=20),
    st.sampled_from(["x" * length for length in (126, 127, 128, 300)]),
)
BLOBS = st.one_of(
    st.binary(max_size=20), st.sampled_from([b"b" * length for length in (126, 127, 128, 16382, 16383, 16384)])
)
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int8": st.integers(-(2**7), 2**7 - 1),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "uint16": st.integers(0, 2**16 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "uint32": st.integers(0, 2**32 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "float64": st.floats(allow_nan=False),
    "string": TEXTS,
    "uuid": st.one_of(st.just(ZERO_UUID), st.uuids()),
    "bytes": BLOBS,
    "records": BLOBS,
}


def messages(message: type[Message], version: int) -> st.SearchStrategy[Message]:
    """Values that this version can express; fields that it lacks keep their defaults."""
    fields = fields_in(message, version)
    present = [*fields.inline, *(field for _, field in fields.tagged)]
    return st.builds(message, **{field.name: _values(field, version) for field in present})


def _values(field: Field, version: int) -> st.SearchStrategy[Any]:
    values = _kind_values(field.kind, version)
    if version in field.nullable:
        values = st.one_of(st.none(), values)
    # Defaults are what tagged fields leave out, and what a usual shape is made of.
    return st.one_of(st.builds(field.make_default), values)


def _kind_values(kind: Kind, version: int) -> st.SearchStrategy[Any]:
    match kind:
        case Scalar(name):
            return SCALARS[name]
        case Array(element):
            return st.lists(_kind_values(element, version), max_size=3)
        case Nested(message):
            return messages(message, version)
