"""What perf records hold: random letters, lines of a file, or a number that counts up."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

from tidelog.cli.failures import BadInput

# Kafka's tool writes random letters from A to Z.
LETTERS: Final = bytes(ord("A") + byte % 26 for byte in range(256))
SEED: Final = 0


class Payloads(Protocol):
    """Gives the values of records, by the record's number."""

    # Whether a batch may be sent again with other numbers: its values do not depend on them.
    repeats: bool

    def value(self, number: int) -> bytes: ...


class RandomPayloads:
    """Letters, so many a record."""

    repeats = True

    def __init__(self, record_bytes: int) -> None:
        self._record_bytes = record_bytes
        self._random = random.Random(SEED)

    def value(self, number: int) -> bytes:
        return self._random.randbytes(self._record_bytes).translate(LETTERS)


class ListedPayloads:
    """One of the given values, drawn by lot."""

    repeats = True

    def __init__(self, values: Sequence[bytes]) -> None:
        self._values = values
        self._random = random.Random(SEED)

    def value(self, number: int) -> bytes:
        return self._random.choice(self._values)


class CountingPayloads:
    """The number of the record."""

    repeats = False

    def value(self, number: int) -> bytes:
        return b"%d" % number


def payloads_in(path: str, delimiter: str) -> ListedPayloads:
    """The parts of a text file; BadInput when it is empty."""
    values = [part.encode() for part in Path(path).read_text().split(delimiter.encode().decode("unicode_escape"))]
    if values and not values[-1]:
        values.pop()
    if not values:
        raise BadInput(f"File does not exist or empty file provided: {path}")
    return ListedPayloads(values)
