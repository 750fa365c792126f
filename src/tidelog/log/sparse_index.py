"""Two ascending columns of numbers, the newest rows in memory, all of them sooner or later in a file.

What the offset index and the time index have in common. New rows are appended in memory, where bisection finds them,
and go to the file in lumps; rows that were on disk before this process opened the segment stay there and are searched
there.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from struct import Struct
from typing import Self

from tidelog.env.files import Files
from tidelog.log.index_file import IndexFile


class SparseIndex:
    """Rows of two numbers that both only grow."""

    __slots__ = ("_columns", "_entry", "_file", "_loaded_from", "_written")

    def __init__(self, files: Files, path: str, entry: Struct, typecodes: str) -> None:
        self._entry = entry
        self._file = IndexFile(files, path, entry)
        self._written: int | None = 0  # Rows in the file; None until somebody asks.
        self._loaded_from = 0  # Number of the first row that is also in memory.
        self._columns: tuple[array[int], array[int]] = (array(typecodes[0]), array(typecodes[1]))

    def on_disk(self) -> Self:
        """Say that the rows are in the file already. Touches no file."""
        self._written = None
        return self

    @property
    def path(self) -> str:
        return self._file.path

    @property
    def count(self) -> int:
        self._know_file()
        return self._loaded_from + len(self._columns[0])

    def _know_file(self) -> int:
        written = self._written
        if written is None:
            written = self._written = self._loaded_from = self._file.count()
        return written

    def append(self, first: int, second: int) -> None:
        self._columns[0].append(first)
        self._columns[1].append(second)

    def row(self, number: int) -> tuple[int, int]:
        loaded = number - self._loaded_from
        if loaded >= 0:
            return self._columns[0][loaded], self._columns[1][loaded]
        return self._file.entry(number)

    def last(self) -> tuple[int, int] | None:
        count = self.count
        return self.row(count - 1) if count else None

    def last_at_most(self, column: int, target: int) -> tuple[int, int] | None:
        """The newest row whose `column` is not more than `target`."""
        self._know_file()
        slot = bisect_right(self._columns[column], target)
        if slot:
            return self._columns[0][slot - 1], self._columns[1][slot - 1]
        return self._file.search(column, target, self._loaded_from)

    def truncate_before(self, column: int, value: int) -> None:
        """Forget every row whose `column` is `value` or more."""
        self._know_file()
        keep = self._loaded_from + bisect_left(self._columns[column], value)
        if keep == self._loaded_from:
            keep = bisect_left(range(self._loaded_from), value, key=lambda number: self._file.entry(number)[column])
        self.truncate(keep)

    def truncate(self, count: int) -> None:
        """Keep the first `count` rows."""
        written = self._know_file()
        keep_loaded = max(count - self._loaded_from, 0)
        for column in self._columns:
            del column[keep_loaded:]
        self._loaded_from = min(self._loaded_from, count)
        if written > count:
            self._file.truncate(count)
            self._written = count

    def reset(self) -> None:
        """Start again from nothing, whatever the file holds: for a rebuild."""
        self._clear_memory()
        self._written = self._loaded_from = 0
        self._file.truncate(0)

    def write_out(self) -> None:
        """Bring the file up to date (page cache; `sync` makes it durable)."""
        written = self._know_file()
        first = written - self._loaded_from
        columns = self._columns
        rows = len(columns[0]) - first
        if rows or not (written or self._file.exists()):
            self._file.write(b"".join(map(self._entry.pack, columns[0][first:], columns[1][first:])), written)
            self._written = written + rows

    def unload(self) -> None:
        """Write out, then keep nothing in memory: the segment is sealed."""
        self.write_out()
        self._loaded_from = self._know_file()
        self._clear_memory()

    def sync(self) -> None:
        self._file.sync()

    def _clear_memory(self) -> None:
        for column in self._columns:
            del column[:]
