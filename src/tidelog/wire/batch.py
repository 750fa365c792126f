"""The 61-byte header of a record batch (magic 2), and the checks that a produced batch passes before it reaches a log.

Called for every produced, replicated and recovered batch, so it looks at the header and the CRC alone: records are
never decoded here (`wire/records.py` does that) and no bytes are copied.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final, TypeAlias

import msgspec

from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import LeaderEpoch, Offset
from tidelog.wire.crc import crc32c

Buffer: TypeAlias = bytes | bytearray | memoryview

# Base offset, length, leader epoch, magic, crc | attributes, last offset delta, base and max timestamp, producer id,
# producer epoch, base sequence, number of records. The CRC covers what follows it: offset and epoch may be rewritten.
HEADER: Final = Struct(">qiibIhiqqqhii")
HEADER_BYTES: Final = 61
MAGIC: Final = 2

LENGTH_OVERHEAD_BYTES: Final = 12  # What `batch_length` does not count: the base offset and the length itself.
BATCH_LENGTH_MIN: Final = HEADER_BYTES - LENGTH_OVERHEAD_BYTES
UP_TO_MAGIC_BYTES: Final = 17  # Magic 0, 1 and 2 agree on the place of the length and of the magic byte.
LEGACY_LENGTH_MIN: Final = 14
LENGTH_POSITION: Final = 8
EPOCH_POSITION: Final = 12
MAGIC_POSITION: Final = 16
CRC_POSITION: Final = 17
CHECKED_POSITION: Final = 21  # Where the bytes under the CRC begin; also where the attributes are.
BASE_TIMESTAMP_POSITION: Final = 27
MAX_TIMESTAMP_POSITION: Final = 35

COMPRESSION_MASK: Final = 0x07
LOG_APPEND_TIME_FLAG: Final = 0x08
TRANSACTIONAL_FLAG: Final = 0x10
CONTROL_FLAG: Final = 0x20
DELETE_HORIZON_FLAG: Final = 0x40
LAST_COMPRESSION: Final = 4  # zstd
NOT_FOR_CLIENTS: Final = CONTROL_FLAG | LOG_APPEND_TIME_FLAG

NO_SEQUENCE: Final = -1
SEQUENCE_MASK: Final = 0x7FFFFFFF  # After 2^31-1 a sequence starts again at 0.

_unpack_header = HEADER.unpack_from
_OFFSET = Struct(">q")
_INT32 = Struct(">i")
_UINT32 = Struct(">I")
_INT16 = Struct(">h")
_INT64 = Struct(">q")


class BatchHeader(msgspec.Struct, frozen=True, gc=False):
    """The header as it is on the wire and on disk, in that order."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def size_bytes(self) -> int:
        """The whole batch, header included."""
        return self.batch_length + LENGTH_OVERHEAD_BYTES

    @property
    def last_offset(self) -> Offset:
        return Offset(self.base_offset + self.last_offset_delta)

    @property
    def next_offset(self) -> Offset:
        """The first offset after this batch."""
        return Offset(self.base_offset + self.last_offset_delta + 1)

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record; sequences wrap around to 0 after 2^31-1."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & SEQUENCE_MASK

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id >= 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_FLAG != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_FLAG != 0

    @property
    def compression(self) -> int:
        """The codec's number, a key of `wire.compression.CODECS`; 0 is none."""
        return self.attributes & COMPRESSION_MASK

    @property
    def is_log_append_time(self) -> bool:
        """True: `max_timestamp` is when the broker appended, for all records. False: the producer's own times."""
        return self.attributes & LOG_APPEND_TIME_FLAG != 0

    @property
    def has_delete_horizon(self) -> bool:
        """True: the cleaner put into `base_timestamp` when tombstones of this batch may go (KIP-534)."""
        return self.attributes & DELETE_HORIZON_FLAG != 0


class BatchInParts:
    """A whole batch whose header and records are not put together: what sends it sends one behind the other."""

    __slots__ = ("body", "header")

    def __init__(self, header: bytes, body: Buffer) -> None:
        self.header = header
        self.body = body

    def __len__(self) -> int:
        return len(self.header) + len(self.body)

    def __bytes__(self) -> bytes:
        return b"".join((self.header, self.body))


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Read a header without judging it; at least `HEADER_BYTES` must be there."""
    return BatchHeader(*_unpack_header(buffer, position))


def iter_headers(buffer: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Give (position, header) of each whole batch; one that is cut off at the end is left out (fetches cut anywhere).

    Raises CORRUPT_MESSAGE where a length or magic byte cannot be true. Does not check CRCs: see `is_crc_valid`.
    """
    end = len(buffer)
    while end - position >= HEADER_BYTES:
        header = BatchHeader(*_unpack_header(buffer, position))
        if header.magic != MAGIC:
            raise ProtocolError(ErrorCode.CORRUPT_MESSAGE, f"Batch at byte {position} has magic {header.magic}, not 2.")
        if header.batch_length < BATCH_LENGTH_MIN:
            raise ProtocolError(
                ErrorCode.CORRUPT_MESSAGE,
                f"Batch at byte {position} says its length is {header.batch_length}, less than {BATCH_LENGTH_MIN}.",
            )
        following = position + header.size_bytes
        if following > end:
            return
        yield position, header
        position = following


def is_crc_valid(buffer: memoryview, header: BatchHeader, position: int = 0) -> bool:
    """Say whether the batch at `position`, which must be there as a whole, is what its writer wrote."""
    return crc32c(buffer[position + CHECKED_POSITION : position + header.size_bytes]) == header.crc


def check_produced_batch(view: memoryview, max_message_bytes: int) -> BatchHeader:
    """Accept exactly one well-formed batch from a client, or raise the error that Apache Kafka answers.

    Stricter than Apache Kafka in two points, so that a log only ever holds what was checked: bytes behind the batch are
    refused instead of dropped, and so is the flag "log append time", which only a broker sets.
    """
    size_bytes = len(view)
    if size_bytes < HEADER_BYTES:
        raise _why_not_whole(view)
    # Locals, not attributes: this runs for every produce request.
    fields = _unpack_header(view)
    base_offset, length, _, magic, crc, attributes, last_offset_delta, _, _, producer_id, _, sequence, count = fields
    header = BatchHeader(*fields)
    if (
        magic == MAGIC
        and length == size_bytes - LENGTH_OVERHEAD_BYTES
        and base_offset == 0
        and size_bytes <= max_message_bytes
        and count == last_offset_delta + 1 > 0
        and not attributes & NOT_FOR_CLIENTS
        and attributes & COMPRESSION_MASK <= LAST_COMPRESSION
        and (sequence >= 0 or producer_id < 0)
        and crc32c(view[CHECKED_POSITION:]) == crc
    ):
        return header
    raise _why_refused(view, header, max_message_bytes)


def _why_not_whole(view: memoryview) -> ProtocolError:
    """Judge bytes that may be too few for a header; old clients (magic 0 and 1) deserve a clear word."""
    size_bytes = len(view)
    if size_bytes < UP_TO_MAGIC_BYTES:
        return ProtocolError(ErrorCode.INVALID_RECORD, f"{size_bytes} bytes are no record batch.")
    (length,) = _INT32.unpack_from(view, LENGTH_POSITION)
    magic = int.from_bytes(view[MAGIC_POSITION:CRC_POSITION], signed=True)
    if length < LEGACY_LENGTH_MIN:
        return ProtocolError(
            ErrorCode.CORRUPT_MESSAGE, f"Record size {length} is less than the minimum {LEGACY_LENGTH_MIN}."
        )
    if not 0 <= magic <= MAGIC:
        return ProtocolError(ErrorCode.CORRUPT_MESSAGE, f"Invalid magic found in record: {magic}.")
    if length + LENGTH_OVERHEAD_BYTES > size_bytes:
        return ProtocolError(
            ErrorCode.INVALID_RECORD,
            f"The batch is cut off: it says {length + LENGTH_OVERHEAD_BYTES} bytes, the request has {size_bytes}.",
        )
    if magic != MAGIC:
        return ProtocolError(
            ErrorCode.INVALID_RECORD,
            f"The batch has the old message format {magic}; only format {MAGIC} (Kafka 0.11 or newer) is accepted.",
        )
    return ProtocolError(
        ErrorCode.CORRUPT_MESSAGE, f"A batch of {length + LENGTH_OVERHEAD_BYTES} bytes is shorter than its header."
    )


def _why_refused(view: memoryview, header: BatchHeader, max_message_bytes: int) -> ProtocolError:
    """Find the first reason in the order in which Apache Kafka looks for them."""
    size_bytes = header.size_bytes
    count = header.records_count
    if header.magic != MAGIC or header.batch_length < BATCH_LENGTH_MIN or size_bytes > len(view):
        return _why_not_whole(view)
    if size_bytes < len(view):
        return _why_more_follows(view[size_bytes:])
    if header.base_offset != 0:
        return ProtocolError(
            ErrorCode.INVALID_RECORD,
            f"The base offset of a produced batch should be 0, but it is {header.base_offset}.",
        )
    if size_bytes > max_message_bytes:
        return ProtocolError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The batch has {size_bytes} bytes, which exceeds max.message.bytes = {max_message_bytes}.",
        )
    if not is_crc_valid(view, header):
        return ProtocolError(ErrorCode.CORRUPT_MESSAGE, f"Record is corrupt (stored crc = {header.crc}).")
    if header.compression > LAST_COMPRESSION:
        return ProtocolError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Unknown compression type {header.compression}.")
    if header.last_offset_delta < 0 or count <= 0 or count != header.last_offset_delta + 1:
        return ProtocolError(
            ErrorCode.INVALID_RECORD,
            f"The batch has {count} records, but its last offset delta is {header.last_offset_delta}.",
        )
    if header.is_control:
        return ProtocolError(ErrorCode.INVALID_RECORD, "Clients are not allowed to write control records.")
    if header.is_log_append_time:
        return ProtocolError(
            ErrorCode.INVALID_TIMESTAMP, "Producers should not set the timestamp type to LogAppendTime."
        )
    assert header.has_producer_id and header.base_sequence < 0, header
    return ProtocolError(
        ErrorCode.INVALID_RECORD,
        f"Invalid sequence number {header.base_sequence} in a batch of producer {header.producer_id}.",
    )


def _why_more_follows(rest: memoryview) -> ProtocolError:
    if len(rest) >= UP_TO_MAGIC_BYTES:
        (length,) = _INT32.unpack_from(rest, LENGTH_POSITION)
        if LEGACY_LENGTH_MIN <= length <= len(rest) - LENGTH_OVERHEAD_BYTES and rest[MAGIC_POSITION] <= MAGIC:
            return ProtocolError(
                ErrorCode.INVALID_RECORD, "A produce request may hold one record batch per partition, not more."
            )
    return ProtocolError(ErrorCode.CORRUPT_MESSAGE, f"{len(rest)} bytes that are no batch follow the batch.")


def check_timestamp_range(header: BatchHeader, now_ms: int, before_max_ms: int, after_max_ms: int) -> None:
    """Refuse a batch whose first or latest timestamp is too far from the clock (KIP-937); -1 is no timestamp."""
    earliest_ms, latest_ms = now_ms - before_max_ms, now_ms + after_max_ms
    for timestamp in (header.max_timestamp, header.base_timestamp):
        if timestamp != -1 and not earliest_ms <= timestamp <= latest_ms:
            raise ProtocolError(
                ErrorCode.INVALID_TIMESTAMP,
                f"Timestamp {timestamp} is out of range. It should be within [{earliest_ms}, {latest_ms}].",
            )


def write_base_offset_and_epoch(view: memoryview | bytearray, base_offset: Offset, leader_epoch: LeaderEpoch) -> None:
    """Stamp in place what the leader decides; the CRC does not cover these bytes."""
    _OFFSET.pack_into(view, 0, base_offset)
    _INT32.pack_into(view, EPOCH_POSITION, leader_epoch)


def write_log_append_time(view: memoryview, timestamp_ms: int) -> BatchHeader:
    """Stamp a batch in place with the broker's time for all its records, and renew the CRC over the change."""
    (attributes,) = _INT16.unpack_from(view, CHECKED_POSITION)
    _INT16.pack_into(view, CHECKED_POSITION, attributes | LOG_APPEND_TIME_FLAG)
    _INT64.pack_into(view, MAX_TIMESTAMP_POSITION, timestamp_ms)
    header = read_header(view)
    crc = crc32c(view[CHECKED_POSITION : header.size_bytes])
    _UINT32.pack_into(view, CRC_POSITION, crc)
    return msgspec.structs.replace(header, crc=crc)
