"""Batches that no broker may accept, and the error that each gets from Apache Kafka 4.2 and from us."""

from __future__ import annotations

import struct
import time
import zlib
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from tidelog.model.errors import ErrorCode
from tidelog.wire.batch import HEADER, read_header
from tidelog.wire.crc import crc32c

# Brokers refuse timestamps far from their clock.
NOW: Final = int(time.time() * 1000)
MAX_MESSAGE_BYTES: Final = 1000


def made_by_aiokafka(
    count: int = 1, *, value: bytes = b"value", producer_id: int = -1, sequence: int = -1
) -> bytearray:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=0,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=sequence,
        batch_size=1 << 20,
    )
    for offset in range(count):
        builder.append(offset, timestamp=NOW + offset, key=b"key", value=value, headers=[])
    return bytearray(builder.build())


def changed(**changes: int) -> bytearray:
    """A batch with other header fields and the CRC that fits them, unless the CRC itself is what changes."""
    batch = made_by_aiokafka()
    HEADER.pack_into(batch, 0, *msgspec.structs.astuple(msgspec.structs.replace(read_header(batch), **changes)))
    if "crc" not in changes:
        struct.pack_into(">I", batch, 17, crc32c(batch[21:]))
    return batch


def old_message(magic: int) -> bytes:
    timestamp = struct.pack(">q", NOW) if magic else b""
    body = struct.pack(">bb", magic, 0) + timestamp + struct.pack(">ii", -1, 1) + b"v"
    return struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body


class Refused(NamedTuple):
    """How to make the batch, what we answer, and what Apache Kafka answers where that is something else."""

    make: Callable[[], bytes | bytearray]
    code: ErrorCode
    apache_code: ErrorCode | None = None


REFUSED: Final[dict[str, Refused]] = {
    "no bytes": Refused(lambda: b"", ErrorCode.INVALID_RECORD),
    "16 bytes": Refused(lambda: made_by_aiokafka()[:16], ErrorCode.INVALID_RECORD),
    "one byte less than a header": Refused(lambda: made_by_aiokafka()[:60], ErrorCode.INVALID_RECORD),
    "a header alone": Refused(lambda: made_by_aiokafka()[:61], ErrorCode.INVALID_RECORD),
    "one byte missing": Refused(lambda: made_by_aiokafka()[:-1], ErrorCode.INVALID_RECORD),
    "two batches": Refused(lambda: made_by_aiokafka() * 2, ErrorCode.INVALID_RECORD),
    "bytes that are no batch behind it": Refused(lambda: made_by_aiokafka() + b"x" * 30, ErrorCode.CORRUPT_MESSAGE),
    # Apache Kafka drops less than 17 bytes in silence.
    "one byte behind it": Refused(lambda: made_by_aiokafka() + b"x", ErrorCode.CORRUPT_MESSAGE, ErrorCode.NONE),
    "magic 0": Refused(lambda: old_message(0), ErrorCode.INVALID_RECORD),
    "magic 1": Refused(lambda: old_message(1), ErrorCode.INVALID_RECORD),
    "magic 1 in a long message": Refused(lambda: changed(magic=1), ErrorCode.INVALID_RECORD),
    "magic 3": Refused(lambda: changed(magic=3), ErrorCode.CORRUPT_MESSAGE),
    "magic -1": Refused(lambda: changed(magic=-1), ErrorCode.CORRUPT_MESSAGE),
    "length 10": Refused(lambda: changed(batch_length=10), ErrorCode.CORRUPT_MESSAGE),
    "length 14": Refused(lambda: changed(batch_length=14), ErrorCode.CORRUPT_MESSAGE),
    "length of less than a header": Refused(lambda: changed(batch_length=48), ErrorCode.CORRUPT_MESSAGE),
    "negative length": Refused(lambda: changed(batch_length=-1), ErrorCode.CORRUPT_MESSAGE),
    # Apache Kafka's arithmetic overflows here and it answers UNKNOWN_SERVER_ERROR.
    "length of 2 GiB": Refused(
        lambda: changed(batch_length=2**31 - 1), ErrorCode.INVALID_RECORD, ErrorCode.UNKNOWN_SERVER_ERROR
    ),
    "base offset 5": Refused(lambda: changed(base_offset=5), ErrorCode.INVALID_RECORD),
    "base offset -1": Refused(lambda: changed(base_offset=-1), ErrorCode.INVALID_RECORD),
    "too large": Refused(lambda: made_by_aiokafka(value=b"x" * 2000), ErrorCode.MESSAGE_TOO_LARGE),
    "wrong crc": Refused(lambda: changed(crc=1), ErrorCode.CORRUPT_MESSAGE),
    # Apache Kafka answers UNKNOWN_SERVER_ERROR to these two, which tells the client nothing.
    "compression 5": Refused(
        lambda: changed(attributes=5), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, ErrorCode.UNKNOWN_SERVER_ERROR
    ),
    "compression 7": Refused(
        lambda: changed(attributes=7), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, ErrorCode.UNKNOWN_SERVER_ERROR
    ),
    "control batch": Refused(lambda: changed(attributes=0x20), ErrorCode.INVALID_RECORD),
    # Apache Kafka accepts and clears it, unless the topic uses log append time or the records have no timestamp.
    "log append time": Refused(lambda: changed(attributes=0x08), ErrorCode.INVALID_TIMESTAMP, ErrorCode.NONE),
    "no records": Refused(lambda: changed(records_count=0, last_offset_delta=-1), ErrorCode.INVALID_RECORD),
    "fewer offsets than records": Refused(lambda: changed(records_count=2), ErrorCode.INVALID_RECORD),
    "more offsets than records": Refused(lambda: changed(last_offset_delta=5), ErrorCode.INVALID_RECORD),
    "negative last offset": Refused(lambda: changed(last_offset_delta=-1), ErrorCode.INVALID_RECORD),
    "negative count": Refused(lambda: changed(records_count=-1), ErrorCode.INVALID_RECORD),
    "producer without sequence": Refused(lambda: changed(producer_id=5, producer_epoch=0), ErrorCode.INVALID_RECORD),
}
