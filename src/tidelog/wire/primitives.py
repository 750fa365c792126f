"""The encodings that compiled codecs do not write out in line: long varints, unknown tags, uuids, runs behind strings.

Called by the code that `compiler.py` generates and by `frames.py`. Everything here is off the hot path or cached.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from struct import Struct
from typing import Any, Final
from uuid import UUID

from tidelog.model.errors import ErrorCode, ProtocolError

UVARINT_BYTES_MAX: Final = 5
# The largest length that one byte of a varint holds; longer strings take the slow way.
SHORT_STRING_BYTES_MAX: Final = 127
LENGTH_MAX: Final = 2**31 - 1
# Elements of all arrays of one message. Three bytes on the wire can be a struct of a hundred in memory, so the size of
# the frame alone bounds little.
ELEMENTS_MAX: Final = 2**21
UUID_CACHE_ENTRIES_MAX: Final = 8192
_ONE_BYTE: Final = tuple(bytes((number,)) for number in range(0x80))


class MalformedMessage(ProtocolError):
    """Bytes that are not a message of the version they claim to be."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INVALID_REQUEST, message)


class UnwritableMessage(ProtocolError):
    """A message that has no encoding in the version asked for."""

    def __init__(self, message: str, code: ErrorCode = ErrorCode.INVALID_REQUEST) -> None:
        super().__init__(code, message)


def uvarint(value: int) -> bytes:
    """Encode a number of 0 to 2^31 - 1, seven bits a byte, lowest first."""
    if 0 <= value < 0x80:
        return _ONE_BYTE[value]
    if value < 0 or value > LENGTH_MAX:
        raise UnwritableMessage(f"{value} does not fit an unsigned varint")
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def long_uvarint(buffer: memoryview, position: int, first: int) -> tuple[int, int]:
    """Continue a varint whose first byte had its high bit set; gives the value and the position behind it."""
    value = first & 0x7F
    for shift in range(7, 7 * UVARINT_BYTES_MAX, 7):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > LENGTH_MAX:
                raise MalformedMessage(f"varint {value} is larger than any length may be")
            return value, position
    raise MalformedMessage(f"varint is longer than {UVARINT_BYTES_MAX} bytes")


def read_uvarint(buffer: memoryview, position: int) -> tuple[int, int]:
    """Decode a varint; gives the value and the position behind it."""
    first = buffer[position]
    if first < 0x80:
        return first, position + 1
    return long_uvarint(buffer, position + 1, first)


def skip_tags(buffer: memoryview, position: int, count: int) -> int:
    """Pass over tagged fields that nobody here knows. `count` is the first byte of their number, already read."""
    if count > 0x7F:
        count, position = long_uvarint(buffer, position, count)
    for _ in range(count):
        _, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        position += size
    if position > len(buffer):
        raise MalformedMessage("a tagged field reaches behind the end")
    return position


# Topic ids come again and again, and constructing a UUID costs more than decoding the rest of a partition.
known_uuids: Final[dict[bytes, UUID]] = {}


def remember_uuid(raw: bytes) -> UUID:
    """Make the UUID of 16 bytes that are not in `known_uuids` yet."""
    if len(known_uuids) >= UUID_CACHE_ENTRIES_MAX:
        known_uuids.clear()
    made = known_uuids[raw] = UUID(bytes=raw)
    return made


@cache
def unpacker(format: str) -> Callable[[memoryview, int], tuple[Any, ...]]:
    """One unpack of a run of fixed-size values."""
    return Struct(f">{format}").unpack_from


@cache
def packer(format: str) -> Callable[..., bytes]:
    """One pack of a run of fixed-size values."""
    return Struct(f">{format}").pack


class StringReaders(dict[int, Callable[[memoryview, int], tuple[Any, ...]]]):
    """For each short length: one unpack of a string's bytes and of the fixed-size fields behind it.

    Keyed by the length as it is on the wire, which in the compact form is one more than the length.
    """

    def __init__(self, field: str, compact: bool, behind: str) -> None:
        self._field = field
        self._extra = int(compact)
        self._behind = behind

    def __missing__(self, length: int) -> Callable[[memoryview, int], tuple[Any, ...]]:
        assert length <= SHORT_STRING_BYTES_MAX, "only short strings are unpacked at once"
        if length < self._extra:
            raise MalformedMessage(f"{self._field} may not be null")
        made = self[length] = Struct(f">{length - self._extra}s{self._behind}").unpack_from
        return made


class StringWriters(dict[int, Callable[..., bytes]]):
    """For each short length: one pack of the fields before a string, its length, its bytes and the fields behind it.

    Keyed by the length as it is on the wire, which in the compact form is one more than the length.
    """

    def __init__(self, before: str, compact: bool, behind: str) -> None:
        self._before = before + ("B" if compact else "h")
        self._extra = int(compact)
        self._behind = behind

    def __missing__(self, length: int) -> Callable[..., bytes]:
        assert length <= SHORT_STRING_BYTES_MAX, "only short strings are packed at once"
        made = self[length] = Struct(f">{self._before}{length - self._extra}s{self._behind}").pack
        return made
