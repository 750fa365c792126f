"""Batches of one record as coordinators write them all day long, made and read in a few steps.

The same bytes as `wire/records.py` and `wire/control.py` make, without an object for each part; called by the journals
of coordinators, for markers, and when a marker is appended or recovered. Whatever is not of this form is theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final

from tidelog.wire.batch import (
    CHECKED_POSITION,
    COMPRESSION_MASK,
    CONTROL_FLAG,
    CRC_POSITION,
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    MAGIC,
    TRANSACTIONAL_FLAG,
    Buffer,
)
from tidelog.wire.crc import crc32c
from tidelog.wire.primitives import uvarint

_CRC: Final = Struct(">I")
_pack_header = HEADER.pack
_pack_crc = _CRC.pack_into

# A marker's only record: 16 bytes long; no attributes, no deltas; a key of 4 bytes (version, type), a value of 6
# (version, coordinator epoch), no headers.
_MARKER_BEGINS: Final = bytes((32, 0, 0, 0, 8, 0, 0))
_MARKER: Final = Struct(">7shb" + "hib")
_VALUE_BEGINS: Final = 12
MARKER_BYTES: Final = HEADER_BYTES + _MARKER.size
MARKER_LENGTH: Final = MARKER_BYTES - LENGTH_OVERHEAD_BYTES
_WHOLE_MARKER: Final = Struct(HEADER.format + _MARKER.format[1:])
_MARKER_ATTRIBUTES: Final = TRANSACTIONAL_FLAG | CONTROL_FLAG
_ATTRIBUTES_POSITION: Final = CHECKED_POSITION + 1
_ABORT: Final = 0
_COMMIT: Final = 1


def build_one_record_batch(key: bytes, value: bytes | None, timestamp_ms: int) -> bytearray:
    """The batch of one record without a producer; its offset and leader epoch are to be written into it."""
    key_length = uvarint(len(key) << 1)
    if value is None:
        fields = b"\0\0\0" + key_length + key + b"\x01\0"
    else:
        fields = b"".join((b"\0\0\0", key_length, key, uvarint(len(value) << 1), value, b"\0"))
    body = uvarint(len(fields) << 1) + fields
    length = HEADER_BYTES - LENGTH_OVERHEAD_BYTES + len(body)
    batch = bytearray(_pack_header(0, length, -1, MAGIC, 0, 0, 0, timestamp_ms, timestamp_ms, -1, -1, -1, 1))
    batch += body
    _pack_crc(batch, CRC_POSITION, crc32c(memoryview(batch)[CHECKED_POSITION:]))
    return batch


def build_plain_batch(records: Sequence[tuple[int, bytes, bytes | None]]) -> bytearray:
    """The batch of some records (timestamp, key, value) without a producer, the first of them the earliest."""
    first_ms, key, value = records[0]
    if len(records) == 1:
        return build_one_record_batch(key, value, first_ms)
    parts = [b""]
    for delta, (timestamp_ms, key, value) in enumerate(records):
        fields = b"".join(
            (
                b"\0",
                uvarint((timestamp_ms - first_ms) << 1),
                uvarint(delta << 1),
                uvarint(len(key) << 1),
                key,
                b"\x01\0" if value is None else uvarint(len(value) << 1) + value + b"\0",
            )
        )
        parts += (uvarint(len(fields) << 1), fields)
    count, last_ms = len(records), records[-1][0]
    length = HEADER_BYTES - LENGTH_OVERHEAD_BYTES + sum(map(len, parts))
    parts[0] = _pack_header(0, length, -1, MAGIC, 0, 0, count - 1, first_ms, last_ms, -1, -1, -1, count)
    batch = bytearray().join(parts)
    _pack_crc(batch, CRC_POSITION, crc32c(memoryview(batch)[CHECKED_POSITION:]))
    return batch


def build_marker(
    is_commit: bool,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytearray:
    """The batch that ends a producer's transaction in a partition."""
    batch = bytearray(
        _WHOLE_MARKER.pack(
            *(base_offset, MARKER_LENGTH, leader_epoch, MAGIC, 0, _MARKER_ATTRIBUTES, 0, timestamp_ms, timestamp_ms),
            *(producer_id, producer_epoch, -1, 1),
            *(_MARKER_BEGINS, _COMMIT if is_commit else _ABORT, _VALUE_BEGINS, 0, coordinator_epoch, 0),
        )
    )
    _pack_crc(batch, CRC_POSITION, crc32c(memoryview(batch)[CHECKED_POSITION:]))
    return batch


def read_usual_marker(batch: Buffer) -> tuple[bool, int] | None:
    """Whether it is a commit, and the coordinator's epoch; None when the control batch is not of the usual form."""
    if len(batch) != MARKER_BYTES or batch[_ATTRIBUTES_POSITION] & COMPRESSION_MASK:
        return None
    begins, kind, value_begins, _, coordinator_epoch, headers = _MARKER.unpack_from(batch, HEADER_BYTES)
    if begins != _MARKER_BEGINS or kind not in (_ABORT, _COMMIT) or value_begins != _VALUE_BEGINS or headers:
        return None
    return kind == _COMMIT, coordinator_epoch
