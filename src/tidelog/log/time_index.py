"""The `.timeindex` file of a segment: sparse entries (largest timestamp so far, last offset of the batch that has it),
8 + 4 bytes.

Timestamps only grow from entry to entry, whatever producers send. `log/segment.py` decides when an entry is due and
calls this.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Final, NamedTuple

from tidelog.env.files import Files
from tidelog.log.errors import CorruptLog
from tidelog.log.sparse_index import SparseIndex
from tidelog.model.ids import NO_TIMESTAMP, Offset

TIME_ENTRY: Final = Struct(">qI")

_TIMESTAMP: Final = 0
_RELATIVE_OFFSET: Final = 1


class TimestampedOffset(NamedTuple):
    """A moment in milliseconds and where it is in the log."""

    timestamp: int
    offset: Offset


class TimeIndex(SparseIndex):
    """Timestamp to offset, for one segment."""

    __slots__ = ("_base_offset",)

    def __init__(self, files: Files, path: str, base_offset: Offset) -> None:
        super().__init__(files, path, TIME_ENTRY, "qI")
        self._base_offset = base_offset

    def add(self, timestamp: int, offset: int) -> None:
        """Add an entry, unless the newest one is as late already."""
        timestamps = self._columns[_TIMESTAMP]
        if timestamp > (timestamps[-1] if timestamps else self.newest().timestamp):
            self.append(timestamp, offset - self._base_offset)

    def add_rows(self, rows: Iterable[tuple[int, int, int, int]]) -> None:
        """Add what a segment has staged: of each row the largest timestamp so far and its offset, if it has grown."""
        timestamps, offsets = self._columns
        newest = timestamps[-1] if timestamps else self.newest().timestamp
        base = self._base_offset
        for _, _, timestamp, offset in rows:
            if timestamp > newest:
                newest = timestamp
                timestamps.append(timestamp)
                offsets.append(offset - base)

    def newest(self) -> TimestampedOffset:
        """The largest timestamp the index knows, or (-1, base offset) when it is empty."""
        return self._named(self.last())

    def lookup(self, timestamp: int) -> TimestampedOffset:
        """The last entry that is not later than `timestamp`: what comes before its batch is earlier than that."""
        return self._named(self.last_at_most(_TIMESTAMP, timestamp))

    def truncate_to(self, offset: int) -> None:
        """Forget entries for `offset` and everything after it."""
        self.truncate_before(_RELATIVE_OFFSET, offset - self._base_offset)

    def check(self, log_size: int) -> None:
        """Raise CorruptLog when the file cannot belong to a log of this size. Reads two entries.

        A sealed or closed segment has at least one entry, unless none of its records has a timestamp.
        """
        if self.count == 0 and log_size:
            raise CorruptLog(f"{self.path} is empty")
        if self.count and self.row(0)[0] > self.newest().timestamp:
            raise CorruptLog(f"{self.path} ends with an earlier timestamp than it begins with")

    def _named(self, row: tuple[int, int] | None) -> TimestampedOffset:
        if row is None:
            return TimestampedOffset(NO_TIMESTAMP, self._base_offset)
        return TimestampedOffset(row[0], Offset(self._base_offset + row[1]))
