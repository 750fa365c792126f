"""Lines as records: where the key and the headers are in a line, for `tidelog produce` and kafka-console-producer.

The bytes of a line are kept as they are; Kafka's own tool reads them as UTF-8 and replaces what is none.
"""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from tidelog.cli.failures import BadInput

READ_BYTES: Final = 256 * 1024

Headers = tuple[tuple[str, bytes | None], ...]


class LineRecord(NamedTuple):
    """What a line says."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class LineFormat:
    """How lines are read: the names and defaults are those of Kafka's reader properties."""

    parse_key: bool = False
    parse_headers: bool = False
    key_separator: bytes = b"\t"
    headers_delimiter: bytes = b"\t"
    headers_separator: bytes = b","
    headers_key_separator: bytes = b":"
    null_marker: bytes | None = None
    ignore_error: bool = False

    def __post_init__(self) -> None:
        named = {
            "headers.delimiter": self.headers_delimiter,
            "headers.separator": self.headers_separator,
            "headers.key.separator": self.headers_key_separator,
        }
        for first, second in (
            ("headers.delimiter", "headers.separator"),
            ("headers.delimiter", "headers.key.separator"),
            ("headers.separator", "headers.key.separator"),
        ):
            if named[first] == named[second]:
                raise BadInput(f"{first} and {second} may not be equal")
        for name, separator in {"key.separator": self.key_separator, **named}.items():
            if separator == self.null_marker:
                raise BadInput(f"null.marker and {name} may not be equal")

    def read(self, line: bytes, number: int) -> LineRecord:
        """The record in a line; BadInput when a separator is missing, unless that is to be ignored."""
        headers: Headers = ()
        key, rest = None, line
        if self.parse_headers:
            text, rest = self._cut(rest, self.headers_delimiter, "headers delimiter", line, number)
            if text is not None and text != self.null_marker:
                headers = tuple(self._header(pair, number) for pair in text.split(self.headers_separator))
        if self.parse_key:
            key, rest = self._cut(rest, self.key_separator, "key separator", line, number)
        return LineRecord(self._null(key), self._null(rest), headers)

    def _cut(self, rest: bytes, separator: bytes, name: str, line: bytes, number: int) -> tuple[bytes | None, bytes]:
        before, found, after = rest.partition(separator)
        if found:
            return before, after
        if self.ignore_error:
            return None, rest
        raise BadInput(f"No {name} found on line number {number}: '{line.decode(errors='replace')}'")

    def _header(self, pair: bytes, number: int) -> tuple[str, bytes | None]:
        name, found, value = pair.partition(self.headers_key_separator)
        shown = pair.decode(errors="replace")
        if not found:
            if self.ignore_error:
                return shown, None
            raise BadInput(f"No header key separator found in pair '{shown}' on line number {number}")
        if name == self.null_marker:
            marker = name.decode(errors="replace")
            raise BadInput(f"Header keys should not be equal to the null marker '{marker}' as they can't be null")
        return name.decode(errors="surrogateescape"), self._null(value)

    def _null(self, field: bytes | None) -> bytes | None:
        return None if field == self.null_marker else field


def lines_of(descriptor: int) -> Iterator[bytes | None]:
    """The lines of a file without their ends; None each time when nothing more is waiting to be read.

    So a producer can gather many lines into a batch and yet send what was typed at once.
    """
    rest = b""
    while True:
        if not select.select([descriptor], [], [], 0)[0]:
            yield None
        data = os.read(descriptor, READ_BYTES)
        if not data:
            break
        *whole, rest = (rest + data).split(b"\n")
        for line in whole:
            yield line[:-1] if line.endswith(b"\r") else line
    if rest:
        yield rest
