"""Finding the records inside the body of a batch, their keys and times, without decoding values.

Called by `log/time_lookup.py`, and where nothing is compiled by `log/key_dict.py` for every record of a compacted log,
so most numbers, which have one or two bytes, are read in place. Bodies are not compressed any
more. A body that is not what its header says raises INVALID_RECORD; nothing outside of it is ever read.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, MutableMapping
from typing import Final, NamedTuple

from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.wire.record_walk import VARINT_BYTES_MAX, VARLONG_BYTES_MAX

# Longer keys are remembered by what `shorten` makes of them.
KEY_BYTES_MAX: Final = 48


class Kept(NamedTuple):
    """Where the records are that stay, as (start, end) in the body, and how many of them are tombstones."""

    bounds: list[tuple[int, int]]
    tombstones: int


def note_keys(
    body: bytes, count: int, base_offset: int, newest: MutableMapping[Hashable, int], shorten: Callable[[bytes], int]
) -> None:
    """Remember for each key twice its offset, plus one for a tombstone. A record without key supersedes nothing."""
    position = 0
    try:
        for _ in range(count):
            byte = body[position]
            if byte < 0x80:
                position += 1
                end = position + (byte >> 1)
            elif body[position + 1] < 0x80:
                end = position + 2 + ((byte & 0x7F | body[position + 1] << 7) >> 1)
                position += 2
            else:
                length, position = _varint(body, position)
                end = position + length
            position += 1  # The record's attributes, then the timestamp, which nobody asks for here.
            while body[position] > 0x7F:
                position += 1
            byte = body[position + 1]
            if byte < 0x80:
                delta = byte >> 1
                position += 2
            elif body[position + 2] < 0x80:
                delta = (byte & 0x7F | body[position + 2] << 7) >> 1
                position += 3
            else:
                delta, position = _varint(body, position + 1)
            byte = body[position]
            if byte < 0x80:
                position += 1
                key_end = position + (byte >> 1)
            else:
                length, position = _varint(body, position)
                key_end = position + length
            if byte != 1:
                if key_end >= end:
                    raise _malformed("A key reaches beyond its record.")
                key: Hashable = body[position:key_end]
                if key_end - position > KEY_BYTES_MAX:
                    key = shorten(body[position:key_end])
                newest[key] = (base_offset + delta) * 2 + (body[key_end] == 1)
            position = end
    except IndexError:
        raise _malformed("The records end too early.") from None
    if position != len(body):
        raise _malformed("The records do not end where their batch does.")


def keep_newest(
    body: bytes,
    count: int,
    base_offset: int,
    newest: Mapping[Hashable, int],
    shorten: Callable[[bytes], int],
    *,
    keep_tombstones: bool,
) -> Kept:
    """The records whose key has no newer one. A record without key, which a compacted topic refuses, goes."""
    bounds: list[tuple[int, int]] = []
    tombstones = 0
    position = 0
    newest_of = newest.get
    try:
        for _ in range(count):
            start = position
            byte = body[position]
            if byte < 0x80:
                position += 1
                end = position + (byte >> 1)
            elif body[position + 1] < 0x80:
                end = position + 2 + ((byte & 0x7F | body[position + 1] << 7) >> 1)
                position += 2
            else:
                length, position = _varint(body, position)
                end = position + length
            position += 1
            while body[position] > 0x7F:
                position += 1
            byte = body[position + 1]
            if byte < 0x80:
                delta = byte >> 1
                position += 2
            elif body[position + 2] < 0x80:
                delta = (byte & 0x7F | body[position + 2] << 7) >> 1
                position += 3
            else:
                delta, position = _varint(body, position + 1)
            byte = body[position]
            if byte < 0x80:
                position += 1
                key_end = position + (byte >> 1)
            else:
                length, position = _varint(body, position)
                key_end = position + length
            if byte != 1:
                if key_end >= end:
                    raise _malformed("A key reaches beyond its record.")
                key: Hashable = body[position:key_end]
                if key_end - position > KEY_BYTES_MAX:
                    key = shorten(body[position:key_end])
                if newest_of(key, -1) >> 1 <= base_offset + delta:
                    if body[key_end] != 1:
                        bounds.append((start, end))
                    elif keep_tombstones:
                        bounds.append((start, end))
                        tombstones += 1
            position = end
    except IndexError:
        raise _malformed("The records end too early.") from None
    if position != len(body):
        raise _malformed("The records do not end where their batch does.")
    return Kept(bounds, tombstones)


def record_bounds(body: bytes, count: int) -> list[int]:
    """Where each record starts, and where the last one ends."""
    bounds = [0]
    position = 0
    try:
        for _ in range(count):
            byte = body[position]
            if byte < 0x80:
                position += 1 + (byte >> 1)
            elif body[position + 1] < 0x80:
                position += 2 + ((byte & 0x7F | body[position + 1] << 7) >> 1)
            else:
                length, position = _varint(body, position)
                position += length
            bounds.append(position)
    except IndexError:
        raise _malformed("The records end too early.") from None
    if position != len(body):
        raise _malformed("The records do not end where their batch does.")
    return bounds


def largest_timestamp_delta(body: bytes, bounds: list[tuple[int, int]]) -> int:
    """The largest timestamp of these records, as the distance to the batch's base timestamp."""
    largest = -(2**63)
    for start, _ in bounds:
        position = start
        while body[position] > 0x7F:
            position += 1
        byte = body[position + 2]
        delta = (
            (byte >> 1) ^ -(byte & 1) if byte < 0x80 else _varint(body, position + 2, VARLONG_BYTES_MAX, signed=True)[0]
        )
        largest = max(largest, delta)
    return largest


def first_not_before(body: bytes, count: int, timestamp_delta: int, offset_delta_min: int) -> tuple[int, int] | None:
    """The first record that is neither earlier nor before an offset, both as distances to the batch's own.

    Returns its timestamp and offset as such distances; nothing behind it is looked at.
    """
    position = 0
    try:
        for _ in range(count):
            length, position = _varint(body, position)
            end = position + length
            byte = body[position + 1]
            if byte < 0x80:
                delta, position = (byte >> 1) ^ -(byte & 1), position + 2
            else:
                delta, position = _varint(body, position + 1, VARLONG_BYTES_MAX, signed=True)
            if delta >= timestamp_delta:
                offset_delta, _ = _varint(body, position)
                if offset_delta >= offset_delta_min:
                    return delta, offset_delta
            position = end
    except IndexError:
        raise _malformed("The records end before their number is reached.") from None
    return None


def _malformed(message: str) -> ProtocolError:
    return ProtocolError(ErrorCode.INVALID_RECORD, message)


def _varint(body: bytes, position: int, bytes_max: int = VARINT_BYTES_MAX, *, signed: bool = False) -> tuple[int, int]:
    """A number and what follows it. Lengths and offsets are never negative, so that nothing is read twice."""
    number = 0
    for index in range(bytes_max):
        byte = body[position + index]
        number |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            if number & 1 and not signed:
                raise _malformed("A length or an offset is negative.")
            return (number >> 1) ^ -(number & 1), position + index + 1
    raise _malformed(f"A varint is longer than {bytes_max} bytes.")
