# cython: language_level=3, wraparound=False, annotation_typing=False
"""The records of one batch's body, one object each. `records.py` and the client's record reader call it.

Plain Python, and compiled as `record_walk_compiled` with the types of its .pxd where there is a compiler: four times as
quick. Whatever the bytes claim, nothing outside of the body is read: every index is checked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from tidelog.model.errors import ErrorCode, ProtocolError

# Every offset is behind it.
NO_FIRST_OFFSET: Final = -(2**63)

RecordHeader: TypeAlias = tuple[str, bytes | None]

# Count up with every change: a compiled module of another revision, left over in a checkout, is not used.
REVISION: Final = 1

# Length, attributes, two deltas, key length, value length and header count take at least a byte each.
RECORD_BYTES_MIN: Final = 7
VARINT_BYTES_MAX: Final = 5
VARLONG_BYTES_MAX: Final = 10


def walk_records(
    body: bytes,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_time: int | None,
    first_offset: int,
    make: Callable[..., Any],
    topic: str | None = None,
    partition: int = 0,
    leader_epoch: int | None = None,
) -> list[Any]:
    """Make an object of each record from `first_offset` on; ProtocolError (INVALID_RECORD) for what is none.

    `make` gets offset, timestamp, key, value and headers; if there is a topic, it and the partition before them, and
    whether the timestamp is the broker's, and the leader epoch, behind them.
    """
    length_bytes = len(body)
    if not 0 <= count <= length_bytes // RECORD_BYTES_MIN:
        raise malformed(f"The batch claims {count} records in {length_bytes} bytes.")
    is_append_time = append_time is not None
    # The same bytes, of which slices are taken.
    text = body
    records: list[Any] = []
    position = 0
    try:
        # Numbers of one byte, which many are, are read in place: a consumer spends its time here.
        for _ in range(count):
            length, position = read_varint(body, position, VARINT_BYTES_MAX)
            end = position + length
            if length < 0 or end > length_bytes:
                raise malformed(f"A record of {length} bytes does not fit into its batch.")
            position += 1  # The record's attributes, which nobody uses.
            byte = body[position]
            if byte < 0x80:
                timestamp_delta = (byte >> 1) ^ -(byte & 1)
                position += 1
            else:
                timestamp_delta, position = read_varint(body, position, VARLONG_BYTES_MAX)
            byte = body[position]
            if byte < 0x80:
                offset_delta = (byte >> 1) ^ -(byte & 1)
                position += 1
            else:
                offset_delta, position = read_varint(body, position, VARINT_BYTES_MAX)
            offset = base_offset + offset_delta
            # The key, and the value: a length below zero is null.
            byte = body[position]
            if byte < 0x80:
                length = (byte >> 1) ^ -(byte & 1)
                position += 1
            else:
                length, position = read_varint(body, position, VARINT_BYTES_MAX)
            if length < 0:
                key = None
            elif length > end - position:
                raise malformed(f"A field of {length} bytes reaches beyond its record.")
            else:
                key = text[position : position + length]
                position += length
            length, position = read_varint(body, position, VARINT_BYTES_MAX)
            if length < 0:
                value = None
            elif length > end - position:
                raise malformed(f"A field of {length} bytes reaches beyond its record.")
            else:
                value = text[position : position + length]
                position += length
            if body[position] == 0:
                headers: tuple[RecordHeader, ...] = ()
                position += 1
            else:
                headers, position = read_headers(body, position, end)
            if position != end:
                raise malformed(f"The fields of a record end {end - position} bytes before the record does.")
            if offset < first_offset:
                continue
            timestamp = append_time if is_append_time else base_timestamp + timestamp_delta
            if topic is None:
                records.append(make(offset, timestamp, key, value, headers))
            else:
                records.append(
                    make(topic, partition, offset, timestamp, key, value, headers, is_append_time, leader_epoch)
                )
    except IndexError:
        raise malformed("The records end too early.") from None
    if position != length_bytes:
        raise malformed(f"{length_bytes - position} bytes follow the last record of the batch.")
    return records


def read_varint(body: bytes, position: int, bytes_max: int) -> tuple[int, int]:
    """The number in zigzag at a position, and the position behind it."""
    number = body[position]
    position += 1
    if number >= 0x80:
        number &= 0x7F
        shift = 7
        while True:
            byte = body[position]
            position += 1
            # Of the tenth byte there is room for a single bit.
            if shift >= 7 * bytes_max or (shift == 63 and byte > 1):
                raise malformed(f"A varint is longer than {bytes_max} bytes.")
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
    return (number >> 1) ^ -(number & 1), position


def read_headers(body: bytes, position: int, end: int) -> tuple[tuple[RecordHeader, ...], int]:
    """The headers at a position, and the position behind them."""
    count, position = read_varint(body, position, VARINT_BYTES_MAX)
    if not 0 <= count <= end - position:
        raise malformed(f"A record claims {count} headers.")
    headers: list[RecordHeader] = []
    for _ in range(count):
        length, position = read_varint(body, position, VARINT_BYTES_MAX)
        if length < 0:
            raise malformed("A header has no key.")
        if length > end - position:
            raise malformed(f"A field of {length} bytes reaches beyond its record.")
        # Bytes that are no UTF-8 survive a round trip, so that the cleaner changes nothing.
        name = body[position : position + length].decode("utf-8", "surrogateescape")
        position += length
        length, position = read_varint(body, position, VARINT_BYTES_MAX)
        if length > end - position:
            raise malformed(f"A field of {length} bytes reaches beyond its record.")
        if length < 0:
            headers.append((name, None))
        else:
            headers.append((name, body[position : position + length]))
            position += length
    return tuple(headers), position


def malformed(message: str) -> ProtocolError:
    return ProtocolError(ErrorCode.INVALID_RECORD, message)
