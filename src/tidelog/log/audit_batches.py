"""Looks at every batch of a segment file for people, and goes on past what is damaged where it can.

Recovery stops at the first bad batch, since it cuts there. This says everything that is wrong, and changes nothing.
Called by `log/audit.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tidelog.env.files import File
from tidelog.model.errors import ProtocolError
from tidelog.wire.batch import (
    BATCH_LENGTH_MIN,
    HEADER_BYTES,
    LAST_COMPRESSION,
    LENGTH_OVERHEAD_BYTES,
    MAGIC,
    BatchHeader,
    is_crc_valid,
    read_header,
)
from tidelog.wire.records import read_records


class Damage(NamedTuple):
    """What is wrong at a position of a file."""

    kind: str
    text: str


class SeenBatch(NamedTuple):
    """A batch, whatever its state, or, without a header, bytes that are none."""

    position: int
    size: int
    header: BatchHeader | None
    batch: memoryview
    damages: list[Damage]


def seen_batches(file: File, size: int, *, with_records: bool) -> Iterator[SeenBatch]:
    """Every batch from the beginning on. Behind a length that cannot be true, the rest of the file is one piece."""
    position = 0
    while position < size:
        header, damage = _header_at(file, position, size)
        if header is None:
            yield SeenBatch(position, size - position, None, memoryview(b""), [damage] if damage else [])
            return
        batch = memoryview(file.read(header.size_bytes, position))
        damages = _damages(header, batch, with_records=with_records)
        yield SeenBatch(position, header.size_bytes, header, batch, damages)
        position += header.size_bytes


def _header_at(file: File, position: int, size: int) -> tuple[BatchHeader | None, Damage | None]:
    left = size - position
    if left < HEADER_BYTES:
        return None, Damage("torn-end", f"{left} bytes at the end are no whole batch")
    start = file.read(HEADER_BYTES, position)
    if not any(start):
        return None, Damage("zeros", f"{left} bytes from here on begin with zeros, not with a batch")
    header = read_header(start)
    if header.magic != MAGIC:
        return None, Damage("no-batch", f"the magic byte is {header.magic}, not {MAGIC}: {left} bytes cannot be read")
    if header.batch_length < BATCH_LENGTH_MIN:
        return None, Damage("no-batch", f"a length of {header.batch_length} is too small: {left} bytes cannot be read")
    if header.batch_length + LENGTH_OVERHEAD_BYTES > left:
        return None, Damage("torn-end", f"a batch of {header.size_bytes} bytes has only {left} left")
    return header, None


def _damages(header: BatchHeader, batch: memoryview, *, with_records: bool) -> list[Damage]:
    if not is_crc_valid(batch, header):
        return [Damage("checksum", "the bytes do not match their checksum")]
    found = []
    if header.last_offset_delta < 0 or header.records_count < 0:
        found.append(
            Damage("header", f"{header.records_count} records with a last offset delta of {header.last_offset_delta}")
        )
    if header.compression > LAST_COMPRESSION:
        found.append(Damage("header", f"there is no codec {header.compression}"))
    if found or not with_records:
        return found
    return _record_damages(header, batch)


def _record_damages(header: BatchHeader, batch: memoryview) -> list[Damage]:
    try:
        records = read_records(batch, check_crc=False)
    except ProtocolError as error:
        return [Damage("records", f"the records cannot be read: {error.message}")]
    found = []
    offsets = [record.offset for record in records]
    if offsets != sorted(set(offsets)):
        found.append(Damage("records", "offsets of records do not grow"))
    if offsets and not header.base_offset <= offsets[-1] <= header.last_offset:
        found.append(
            Damage("records", f"the last record has offset {offsets[-1]}, its batch ends with {header.last_offset}")
        )
    is_whole = len(records) == header.last_offset_delta + 1
    if records and is_whole and offsets[-1] != header.last_offset:
        found.append(Damage("records", f"the last record has offset {offsets[-1]}, not {header.last_offset}"))
    # The time of a batch that the cleaner marked counts from elsewhere, that of an append is the broker's.
    if records and not header.is_log_append_time and not header.has_delete_horizon and not header.is_control:
        largest = max(record.timestamp for record in records)
        if largest != header.max_timestamp:
            found.append(
                Damage("timestamp", f"the largest timestamp is {largest}, the batch says {header.max_timestamp}")
            )
    return found
