"""The records that every client sends and must read back unchanged: with and without key, value and headers."""

from __future__ import annotations

import time
from typing import Final, NamedTuple

# An hour ago, one record per millisecond: recent enough for every retention, and every timestamp names one record.
FIRST_TIMESTAMP_MS: Final = int(time.time() * 1000) - 3_600_000
NO_HEADERS: Final[tuple[tuple[str, bytes], ...]] = ()


class Record(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int

    def without_time(self) -> Record:
        """For clients that cannot set the timestamp of a record."""
        return self._replace(timestamp_ms=0)


def any_records(count: int, *, null_headers: bool = True) -> list[Record]:
    """Every shape a record can have, in turn: bare, keyed, with headers, empty, null, binary, long."""
    null = None if null_headers else b"null"  # Some clients refuse to send a header without a value.
    return [_any_record(number, null) for number in range(count)]


def text_records(count: int, *, keys: bool = True, headers: bool = True) -> list[Record]:
    """Lines of text, the same headers on each: what command line clients can send. One has letters beyond ASCII."""
    return [
        Record(
            f"key-{number % 97}".encode() if keys else None,
            f"line {number} of a text, grüß dich".encode(),
            (("origin", b"text"), ("kind", b"line")) if headers else NO_HEADERS,
            FIRST_TIMESTAMP_MS + number,
        )
        for number in range(count)
    ]


def _any_record(number: int, null: bytes | None) -> Record:
    key = b"key-%d" % (number % 1009)
    value = b"value %d " % number + b"abcdefghij" * (number % 7)
    timestamp_ms = FIRST_TIMESTAMP_MS + number
    match number % 8:
        case 0:
            return Record(None, value, NO_HEADERS, timestamp_ms)
        case 1:
            return Record(key, value, NO_HEADERS, timestamp_ms)
        case 2:
            return Record(key, value, (("first", b"1"), ("second", b"\x00\xff"), ("first", b"again")), timestamp_ms)
        case 3:
            return Record(None, value, (("trace", b"%d" % number),), timestamp_ms)
        case 4:
            return Record(key, None, NO_HEADERS, timestamp_ms)  # A tombstone.
        case 5:
            return Record(b"", b"", (("", b""), ("nothing", null)), timestamp_ms)
        case 6:
            return Record(number.to_bytes(4, "big"), bytes(range(256))[number % 200 :], NO_HEADERS, timestamp_ms)
        case _:
            return Record(key, b"long " * 100, (("schlüssel", "wert äöü".encode()),), timestamp_ms)
