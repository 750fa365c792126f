"""What clients did and saw, as events in files of JSON lines: written by generators, read by the checker.

A record is known by who produced it and its number; numbers of a producer rise by one with each record it sends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Final, NamedTuple, TypeAlias

import msgspec

SEPARATOR: Final = "."


class Place(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Name(NamedTuple):
    """Which record it is; its value says so."""

    producer: str
    number: int

    def __str__(self) -> str:
        return f"{self.producer}{SEPARATOR}{self.number}"


class Sent(msgspec.Struct, frozen=True, array_like=True, tag="sent"):
    """A producer was given this record: from now on it may turn up. Numbers before it were sent, too.

    `untold`: how many more it may have been given, for a producer that does not tell in advance.
    """

    producer: str
    number: int
    untold: int = 0


class Acked(msgspec.Struct, frozen=True, array_like=True, tag="acked"):
    """A producer was told that this record is stored at this offset."""

    topic: str
    partition: int
    offset: int
    producer: str
    number: int


class Failed(msgspec.Struct, frozen=True, array_like=True, tag="failed"):
    """A producer gave up: the record may be stored or not."""

    producer: str
    number: int
    reason: str


class Seen(msgspec.Struct, frozen=True, array_like=True, tag="seen"):
    """A consumer was given this record."""

    consumer: str
    topic: str
    partition: int
    offset: int
    producer: str
    number: int


class Whole(msgspec.Struct, frozen=True, array_like=True, tag="whole"):
    """A consumer has read all of a partition, from its first offset to before this end, when all was at rest."""

    consumer: str
    topic: str
    partition: int
    begin: int
    end: int


Event: TypeAlias = Sent | Acked | Failed | Seen | Whole

_decoder: Final = msgspec.json.Decoder(Event)
_encoder: Final = msgspec.json.Encoder()


def value_of(name: Name) -> bytes:
    return str(name).encode()


def name_in(value: bytes | None) -> Name:
    """Which record a value says it is. Raises ValueError for a value that no generator makes."""
    producer, separator, number = (value or b"").decode().rpartition(SEPARATOR)
    if not separator:
        raise ValueError(f"no generator made the value {value!r}")
    return Name(producer, int(number))


class HistoryWriter:
    """Appends events to a file. What a killed process had not flushed is lost, which can hide but never invent."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def write(self, event: Event) -> None:
        self._file.write(_encoder.encode(event) + b"\n")


def read_history(files: Iterable[Path]) -> Iterator[Event]:
    """The events of some files, each file's in its order. A last line that was cut off is left out."""
    for path in files:
        with path.open("rb") as lines:
            for line in lines:
                if line.endswith(b"\n"):
                    yield _decoder.decode(line)
