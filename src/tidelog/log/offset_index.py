"""The `.index` file of a segment: sparse entries (last offset of a batch, byte position of that batch), 4 + 4 bytes.

Offsets are stored relative to the segment's base offset. `log/segment.py` decides when an entry is due and calls this.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from struct import Struct
from typing import Final

from tidelog.env.files import Files
from tidelog.log.errors import CorruptLog
from tidelog.log.sparse_index import SparseIndex
from tidelog.model.ids import Offset

OFFSET_ENTRY: Final = Struct(">II")
# An offset is stored relative to the segment's base, in a number that Apache Kafka reads as signed.
RELATIVE_OFFSET_MAX: Final = 2**31 - 1
# More offsets than a follower skips within a segment, or than a torn segment can have lost.
SKIP_WITHIN_SEGMENTS_MAX: Final = 2**30

_RELATIVE_OFFSET: Final = 0
_POSITION: Final = 1


class OffsetIndex(SparseIndex):
    """Offset to byte position, for one segment."""

    __slots__ = ("_base_offset",)

    def __init__(self, files: Files, path: str, base_offset: Offset) -> None:
        super().__init__(files, path, OFFSET_ENTRY, "II")
        self._base_offset = base_offset

    def add(self, last_offset: int, position: int) -> None:
        self.append(last_offset - self._base_offset, position)

    def add_rows(self, rows: Iterable[tuple[int, int, int, int]]) -> int:
        """Add what a segment has staged: of each row the last offset and the position. Says how many are in memory
        alone."""
        offsets, positions = self._columns
        base = self._base_offset
        for last_offset, position, _, _ in rows:
            offsets.append(last_offset - base)
            positions.append(position)
        return len(offsets) + self._loaded_from - self._know_file()

    def lookup(self, offset: int) -> int:
        """A position at or before the batch that holds `offset`; 0 when nothing better is known."""
        row = self.last_at_most(_RELATIVE_OFFSET, offset - self._base_offset)
        return row[1] if row else 0

    def boundary_at_or_before(self, position: int) -> int:
        """The last known start of a batch that is not after `position`; 0 when none is known."""
        positions = self._columns[_POSITION]
        if positions and positions[0] <= position:
            return positions[bisect_right(positions, position) - 1]
        row = self.last_at_most(_POSITION, position)
        return row[1] if row else 0

    def truncate_to(self, offset: int) -> None:
        """Forget every batch that holds `offset` or comes after it."""
        self.truncate_before(_RELATIVE_OFFSET, offset - self._base_offset)

    def check(self, log_size: int) -> None:
        """Raise CorruptLog when the file cannot belong to a log of this size. Reads one entry."""
        last = self.last()
        if last is not None and (last[1] >= log_size or last == (0, 0)):
            raise CorruptLog(f"{self.path} points at byte {last[1]} of a log of {log_size} bytes")
