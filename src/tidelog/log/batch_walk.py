"""Walking over the batches of a segment file from header to header, without reading what is in them.

Used by look-ups for the short way from an index entry to the batch, and by whatever has to know all batches of a
segment. It trusts the file: `log/recovery.py` is for files that may be torn.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from tidelog.env.files import File
from tidelog.log.errors import CorruptLog
from tidelog.wire.batch import HEADER_BYTES, LENGTH_OVERHEAD_BYTES

# base_offset, batch_length, (leader_epoch, magic, crc, attributes), last_offset_delta, (base_timestamp), max_timestamp
_LANDMARK: Final = Struct(">qi11xi8xq")
# Headers are read in pieces of this size: one piece covers the usual distance between two index entries.
WALK_BYTES: Final = 8192


class Landmark(NamedTuple):
    """Where a batch is and what it spans."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    max_timestamp: int

    @property
    def end(self) -> int:
        return self.position + self.size


def walk(file: File, position: int, end: int) -> Iterator[Landmark]:
    """Every batch that starts in [position, end); `position` must be the start of one."""
    unpack, landmark_size = _LANDMARK.unpack_from, _LANDMARK.size
    while position < end:
        piece = file.read(min(WALK_BYTES, end - position), position)
        last_start = len(piece) - landmark_size
        if last_start < 0:
            raise CorruptLog(f"{file.path} has {len(piece)} bytes at {position} where a batch should be")
        within = 0
        while within <= last_start:
            base_offset, length, delta, max_timestamp = unpack(piece, within)
            size = length + LENGTH_OVERHEAD_BYTES
            if size < HEADER_BYTES:
                raise CorruptLog(f"{file.path} has a batch of {size} bytes at {position + within}")
            yield Landmark(position + within, size, base_offset, base_offset + delta, max_timestamp)
            within += size
        position += within
