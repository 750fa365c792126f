"""The records inside a batch: decoded for people and machines that look into them, and built into batches.

Called by the client, the command line, the metadata log and the cleaner; the broker's produce and fetch path never is.
Whatever the bytes claim, reading stays inside the batch and inside the bound on decompressed size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any, Final, cast

import msgspec

from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import NO_EPOCH, NO_PRODUCER, LeaderEpoch, Offset, ProducerEpoch, ProducerId
from tidelog.wire import record_walk
from tidelog.wire.batch import (
    CHECKED_POSITION,
    COMPRESSION_MASK,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    LOG_APPEND_TIME_FLAG,
    MAGIC,
    NO_SEQUENCE,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    BatchInParts,
    Buffer,
    is_crc_valid,
    iter_headers,
)
from tidelog.wire.compression import Compression, compress, decompress
from tidelog.wire.crc import crc32c
from tidelog.wire.record_walk import RecordHeader


def _walk() -> Callable[..., list[Any]]:
    """The compiled walk over records, if there is one that fits this package, else the same in Python."""
    try:
        compiled = import_module("tidelog.wire.record_walk_compiled")
    except ImportError:
        return record_walk.walk_records
    fits = getattr(compiled, "REVISION", None) == record_walk.REVISION
    return cast("Callable[..., list[Any]]", compiled.walk_records) if fits else record_walk.walk_records


walk_records: Final = _walk()

# A batch is at most as large as a request (100 MiB by default); this is what it may become when it is decompressed.
DECOMPRESSED_BYTES_MAX: Final = 256 * 1024 * 1024
NO_PRODUCER_EPOCH: Final = ProducerEpoch(-1)

_CRC_BYTES_AT: Final = slice(CHECKED_POSITION - 4, CHECKED_POSITION)
_ONE_BYTE_VARINTS: Final = tuple(bytes((number,)) for number in range(0x80))


class Record(msgspec.Struct, frozen=True, gc=False):
    """One record. A key or value of None is null: a value of None in a compacted topic deletes the key."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[RecordHeader, ...] = ()


def read_records(
    buffer: Buffer, position: int = 0, *, max_bytes: int = DECOMPRESSED_BYTES_MAX, check_crc: bool = True
) -> list[Record]:
    """Decode the batch at `position`; bytes behind it do not matter.

    Raises CORRUPT_MESSAGE for a broken header or CRC, INVALID_RECORD for records that are not what the header says, and
    MESSAGE_TOO_LARGE for a batch that decompresses to more than `max_bytes`.
    """
    view = memoryview(buffer)
    found = next(iter_headers(view, position), None)
    if found is None:
        raise ProtocolError(
            ErrorCode.CORRUPT_MESSAGE, f"{len(view) - position} bytes do not hold a whole record batch."
        )
    _, header = found
    return walk_records(
        body_of(view, header, position, max_bytes=max_bytes, check_crc=check_crc),
        header.records_count,
        header.base_offset,
        header.base_timestamp,
        header.max_timestamp if header.is_log_append_time else None,
        record_walk.NO_FIRST_OFFSET,
        Record,
    )


def body_of(
    view: memoryview,
    header: BatchHeader,
    position: int,
    *,
    max_bytes: int = DECOMPRESSED_BYTES_MAX,
    check_crc: bool = True,
) -> bytes:
    """The records of the whole batch at `position`, not compressed, for `walk_records`; refusals as `read_records`."""
    if check_crc and not is_crc_valid(view, header, position):
        raise ProtocolError(ErrorCode.CORRUPT_MESSAGE, f"Record is corrupt (stored crc = {header.crc}).")
    return decompress(header.compression, view[position + HEADER_BYTES : position + header.size_bytes], max_bytes)


def build_batch(
    records: Sequence[Record],
    *,
    base_offset: Offset = Offset(0),
    leader_epoch: LeaderEpoch = NO_EPOCH,
    compression: Compression = Compression.NONE,
    compression_level: int | None = None,
    producer_id: ProducerId = NO_PRODUCER,
    producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
    log_append_time_ms: int | None = None,
) -> bytes:
    """Make a batch of new records: they get consecutive offsets from `base_offset`, whatever their own say."""
    assert records, "a batch that a client or broker writes has at least one record"
    attributes = (
        compression
        | (LOG_APPEND_TIME_FLAG if log_append_time_ms is not None else 0)
        | (TRANSACTIONAL_FLAG if is_transactional else 0)
        | (CONTROL_FLAG if is_control else 0)
    )
    base_timestamp = records[0].timestamp
    body = _encode(((index, record) for index, record in enumerate(records)), base_timestamp)
    if compression:
        body = compress(compression, body, compression_level)
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=0,
        leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=attributes,
        last_offset_delta=len(records) - 1,
        base_timestamp=base_timestamp,
        max_timestamp=max(record.timestamp for record in records) if log_append_time_ms is None else log_append_time_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        records_count=len(records),
    )
    return seal_batch(header, body)


def rebuild_batch(header: BatchHeader, kept: Sequence[Record], *, delete_horizon_ms: int | None = None) -> bytes:
    """Make the batch anew with the records that the cleaner keeps.

    Offsets, producer and the batch's own offset range stay as they were, so that readers see gaps and not renumbered
    records, and a producer's last sequence is not forgotten. Nothing kept gives the empty batch that says just that.
    """
    attributes = header.attributes & ~DELETE_HORIZON_FLAG
    base_timestamp = kept[0].timestamp if kept else header.max_timestamp
    if delete_horizon_ms is not None:
        attributes |= DELETE_HORIZON_FLAG
        base_timestamp = delete_horizon_ms
    if kept:
        body = _encode(((record.offset - header.base_offset, record) for record in kept), base_timestamp)
    else:
        attributes &= ~COMPRESSION_MASK
        body = b""
    if attributes & COMPRESSION_MASK:
        body = compress(attributes & COMPRESSION_MASK, body)
    max_timestamp = header.max_timestamp
    if kept and not header.is_log_append_time:
        max_timestamp = max(record.timestamp for record in kept)
    return seal_batch(
        msgspec.structs.replace(
            header,
            attributes=attributes,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            records_count=len(kept),
        ),
        body,
    )


def seal_batch(header: BatchHeader, body: Buffer) -> bytes:
    """Put header and body together, with the length and the CRC that they have."""
    return bytes(seal_in_parts(header, body))


def seal_in_parts(header: BatchHeader, body: Buffer) -> BatchInParts:
    """The same without a copy of the body."""
    length = HEADER_BYTES + len(body) - LENGTH_OVERHEAD_BYTES
    packed = bytearray(
        HEADER.pack(*msgspec.structs.astuple(msgspec.structs.replace(header, batch_length=length, crc=0)))
    )
    packed[_CRC_BYTES_AT] = crc32c(body, crc32c(packed[CHECKED_POSITION:])).to_bytes(4)
    return BatchInParts(bytes(packed), body)


def _encode(records: Iterable[tuple[int, Record]], base_timestamp: int) -> bytes:
    """Encode (offset delta, record) pairs one behind the other."""
    parts: list[bytes] = []
    for offset_delta, record in records:
        key, value, headers = record.key, record.value, record.headers
        fields = [b"\x00", _varint(record.timestamp - base_timestamp), _varint(offset_delta)]
        fields += (b"\x01",) if key is None else (_varint(len(key)), key)
        fields += (b"\x01",) if value is None else (_varint(len(value)), value)
        fields.append(_varint(len(headers)))
        for name, content in headers:
            encoded_name = name.encode("utf-8", "surrogateescape")
            fields += (_varint(len(encoded_name)), encoded_name)
            fields += (b"\x01",) if content is None else (_varint(len(content)), content)
        encoded = b"".join(fields)
        parts += (_varint(len(encoded)), encoded)
    return b"".join(parts)


def _varint(number: int) -> bytes:
    """Encode in zigzag: small numbers of either sign take one byte. -1, the length of null, is 0x01."""
    zigzag = number << 1 if number >= 0 else ~(number << 1)
    if zigzag < 0x80:
        return _ONE_BYTE_VARINTS[zigzag]
    encoded = bytearray()
    while zigzag > 0x7F:
        encoded.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    encoded.append(zigzag)
    return bytes(encoded)
