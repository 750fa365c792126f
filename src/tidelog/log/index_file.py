"""A file of fixed-size, ascending, big-endian entries: the disk side of the offset index and of the time index.

The file is opened for each look-up and closed again, so that thousands of sealed segments hold no descriptor. A
look-up guesses where the entry is (entries are nearly evenly spaced) and reads a small window around it: one or two
reads in practice.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from operator import itemgetter
from struct import Struct
from typing import Any, Final

from tidelog.env.files import File, Files
from tidelog.log.errors import CorruptLog

# Entries read at once around a guess: at most 768 bytes.
WINDOW_ENTRIES: Final = 64
# After this many guesses that missed, halve instead: uneven entries must not cost more than a binary search.
GUESSES_MAX: Final = 3


class IndexFile:
    """Entries of one shape in one file. Knows nothing of what they mean."""

    __slots__ = ("_entry", "_files", "path")

    def __init__(self, files: Files, path: str, entry: Struct) -> None:
        self._files = files
        self._entry = entry
        self.path = path

    def exists(self) -> bool:
        return self._files.exists(self.path)

    def count(self) -> int:
        """Entries in the file; raises CorruptLog when its length is not a whole number of them."""
        try:
            size = self._files.size(self.path)
        except FileNotFoundError:
            raise CorruptLog(f"{self.path} is missing") from None
        count, rest = divmod(size, self._entry.size)
        if rest:
            raise CorruptLog(f"{self.path} has {size} bytes, which is no multiple of {self._entry.size}")
        return count

    def entry(self, number: int) -> tuple[int, int]:
        file = self._files.open(self.path)
        try:
            return self._window(file, number, number + 1)[0]
        finally:
            file.close()

    def entries(self, first: int, end: int) -> list[tuple[int, int]]:
        if end <= first:
            return []
        file = self._files.open(self.path)
        try:
            return self._window(file, first, end)
        finally:
            file.close()

    def write(self, encoded: bytes, at: int) -> None:
        """Put entries from entry number `at` on and let nothing follow them."""
        file = self._files.open(self.path, create=True)
        try:
            position = at * self._entry.size
            if file.size() != position:
                file.truncate(position)
            if encoded:
                file.write([encoded], position)
        finally:
            file.close()

    def truncate(self, count: int) -> None:
        self.write(b"", count)

    def sync(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            file = self._files.open(self.path)
            try:
                file.sync()
            finally:
                file.close()

    def search(self, column: int, target: int, count: int) -> tuple[int, int] | None:
        """The last of the first `count` entries whose `column` is at most `target`."""
        if count == 0:
            return None
        key = itemgetter(column)
        file = self._files.open(self.path)
        try:
            best = self._window(file, count - 1, count)[0]
            if key(best) <= target:
                return best
            # Entries before `low` are at most the target, entries from `high` on are beyond it.
            low, high, low_key, high_key = 0, count - 1, 0, key(best)
            found: tuple[int, int] | None = None
            guesses = 0
            while low < high:
                if guesses < GUESSES_MAX and high_key > low_key:
                    guess = low + (high - low) * (target - low_key) // (high_key - low_key)
                else:
                    guess = (low + high) // 2
                guesses += 1
                first = max(low, min(guess - WINDOW_ENTRIES // 2, high - WINDOW_ENTRIES))
                window = self._window(file, first, min(high, first + WINDOW_ENTRIES))
                within = bisect_right(window, target, key=key) - 1
                if within < 0:
                    high, high_key = first, key(window[0])
                    continue
                found = window[within]
                if within < len(window) - 1:
                    return found
                low, low_key = first + len(window), key(found)
            return found
        finally:
            file.close()

    def _window(self, file: File, first: int, end: int) -> list[tuple[int, int]]:
        size = self._entry.size
        data = file.read((end - first) * size, first * size)
        if len(data) != (end - first) * size:
            raise CorruptLog(f"{self.path} ends before its entry {end}")
        entries: list[Any] = list(self._entry.iter_unpack(data))
        return entries
