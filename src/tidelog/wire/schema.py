"""The vocabulary in which messages are declared.

A message is one `msgspec.Struct` for all of its versions. The annotation says how a field is encoded, the assignment
its default; `Annotated[...]` adds what differs between versions:

    class ListOffsetsPartition(Message):
        partition_index: int32 = 0
        current_leader_epoch: Annotated[int32, since("4+")] = -1
        timestamp: int64 = 0

Types: bool_, int8, int16, uint16, int32, uint32, int64, float64, string, uuid, bytes_, records; `list[T]` is an array;
a Message subclass is a nested struct. `T | None` together with `nullable("9+")` may be null.
Marks: `since(versions)` where the field exists, `nullable(versions)`, `tag(number, versions)` a tagged field that
exists in those versions alone, `ignorable` (a value other than the default may be dropped silently when the version
lacks the field), `inflexible` (never in the compact encoding, even in flexible versions: the client id of the request
header). `wire/compiler.py` reads these and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, NamedTuple
from uuid import UUID

import msgspec


class VersionRange(NamedTuple):
    """An inclusive range of versions; `last` is LATEST for "4+"."""

    first: int
    last: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last

    @classmethod
    def parse(cls, text: str) -> VersionRange:
        """Read "3-13", "4+", "7" or "none"."""
        if text == "none":
            return NEVER
        if text.endswith("+"):
            return cls(int(text[:-1]), LATEST)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))


LATEST: Final = 32767
NEVER: Final = VersionRange(0, -1)
ALWAYS: Final = VersionRange(0, LATEST)


# The marks are dataclasses, not tuples: typing caches `Annotated[...]` by equality, and tuples of different kinds with
# the same content are equal.
@dataclass(frozen=True, slots=True)
class Scalar:
    """How one primitive is encoded, by its protocol name: "int32", "string", "uuid", …"""

    name: str


@dataclass(frozen=True, slots=True)
class Since:
    versions: VersionRange


@dataclass(frozen=True, slots=True)
class Nullable:
    versions: VersionRange


@dataclass(frozen=True, slots=True)
class Tag:
    number: int
    versions: VersionRange


@dataclass(frozen=True, slots=True)
class Ignorable:
    """The field may be left out silently when the target version lacks it."""


@dataclass(frozen=True, slots=True)
class Inflexible:
    """The field keeps its old encoding in flexible versions too."""


@dataclass(frozen=True, slots=True)
class Usual:
    """The length that an array (0 or 1) or a string (0) nearly always has. Changes the speed, never the bytes."""

    length: int


def since(versions: str) -> Since:
    return Since(VersionRange.parse(versions))


def nullable(versions: str) -> Nullable:
    return Nullable(VersionRange.parse(versions))


def tag(number: int, versions: str) -> Tag:
    return Tag(number, VersionRange.parse(versions))


def usually(length: int) -> Usual:
    return Usual(length)


ignorable: Final = Ignorable()
inflexible: Final = Inflexible()

bool_ = Annotated[bool, Scalar("bool")]
int8 = Annotated[int, Scalar("int8")]
int16 = Annotated[int, Scalar("int16")]
uint16 = Annotated[int, Scalar("uint16")]
int32 = Annotated[int, Scalar("int32")]
uint32 = Annotated[int, Scalar("uint32")]
int64 = Annotated[int, Scalar("int64")]
float64 = Annotated[float, Scalar("float64")]
string = Annotated[str, Scalar("string")]
uuid = Annotated[UUID, Scalar("uuid")]
# Decoded as a memoryview into the frame: copy it (`bytes(value)`) before keeping it beyond the request.
bytes_ = Annotated[bytes | memoryview, Scalar("bytes")]
# Record batches: a memoryview when decoded; when encoded any buffer, or an object with `__len__` that is sent by
# sendfile.
records = Annotated[Any, Scalar("records")]


class Message(msgspec.Struct, gc=False):
    """A struct of the protocol. Top-level messages also say their versions, first flexible version and API key."""

    VERSIONS: ClassVar[str] = "0+"
    FLEXIBLE: ClassVar[str] = "none"
    API_KEY: ClassVar[int] = -1


class Request(Message, gc=False):
    """A request body. `RESPONSE` is the class of its answer."""

    RESPONSE: ClassVar[type[Message]]


class Response(Message, gc=False):
    """A response body."""
