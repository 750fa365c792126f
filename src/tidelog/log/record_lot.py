"""The records of several batches, not compressed and in one buffer: what compaction looks at in one go.

`log/compaction.py` and `log/batch_filter.py` fill lots, `log/key_table.py` and `log/key_dict.py` read them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.wire.batch import HEADER_BYTES, BatchHeader, Buffer
from tidelog.wire.compression import decompress
from tidelog.wire.record_walk import RECORD_BYTES_MIN
from tidelog.wire.records import DECOMPRESSED_BYTES_MAX

# A lot is full with this many bytes of records: enough to make calls rare, little enough for a processor's cache.
LOT_BYTES: Final = 1024 * 1024
# Nor does it reach further in the log than this: what was read is kept in memory from its first batch on.
SPAN_BYTES_MAX: Final = 4 * 1024 * 1024


class Body(NamedTuple):
    """The records of one batch in a lot."""

    start: int
    end: int
    records_count: int
    base_offset: int
    last_offset: int
    # Every offset from the first to the last has a record, and all of them were noted.
    is_noted: bool
    keeps_tombstones: bool


class Remaining(NamedTuple):
    """The records of a batch that stay, as they were written, and the largest timestamp of them as it is written."""

    records_count: int
    tombstones: int
    timestamp_delta_max: int
    records: Buffer


NOTHING_REMAINS: Final = Remaining(0, 0, 0, b"")


def body_of(header: BatchHeader, batch: memoryview) -> Buffer:
    """The records of a batch, decompressed within the bound. ProtocolError for what cannot be decompressed."""
    body = batch[HEADER_BYTES:]
    return decompress(header.compression, body, DECOMPRESSED_BYTES_MAX) if header.compression else body


class RecordLot:
    """Batches in the order of the log."""

    __slots__ = ("_buffers", "bodies", "records_count", "size", "span_bytes")

    def __init__(self) -> None:
        self._buffers: list[Buffer] = []
        self.bodies: list[Body] = []
        self.size = 0
        self.records_count = 0
        # How many bytes of the log were passed since the lot was begun.
        self.span_bytes = 0

    @property
    def is_full(self) -> bool:
        return self.size >= LOT_BYTES or self.span_bytes >= SPAN_BYTES_MAX

    def add(
        self, header: BatchHeader, batch: memoryview, *, is_noted: bool = False, keeps_tombstones: bool = True
    ) -> None:
        """Take a batch. INVALID_RECORD if it is not what its header says, as far as that is seen at once."""
        buffer = body_of(header, batch)
        start, end = self.size, self.size + len(buffer)
        count = header.records_count
        if not 0 <= count <= len(buffer) // RECORD_BYTES_MIN:
            raise ProtocolError(ErrorCode.INVALID_RECORD, f"The batch claims {count} records in {len(buffer)} bytes.")
        self._buffers.append(buffer)
        self.bodies.append(Body(start, end, count, header.base_offset, header.last_offset, is_noted, keeps_tombstones))
        self.size = end
        self.records_count += count

    def data(self) -> Buffer:
        """All records one behind the other."""
        return self._buffers[0] if len(self._buffers) == 1 else b"".join(self._buffers)

    def broken(self, index: int) -> ProtocolError:
        return ProtocolError(
            ErrorCode.INVALID_RECORD, f"The records from offset {self.bodies[index].base_offset} on are broken."
        )
