"""Which record of each key is the newest: the memory of one compaction, which has a bound.

Filled from the dirty part of a log, batch by batch, until it is full; a log with more keys is compacted in passes.
`log/batch_filter.py` asks it what may go.
"""

from __future__ import annotations

import hashlib
from array import array
from bisect import bisect_left
from collections.abc import Hashable
from typing import Final

from tidelog.wire.record_scan import note_keys

# What one key takes in memory: the key, its number, their places in the table and in the sorted list.
ENTRY_BYTES: Final = 216
_DIGEST_BYTES: Final = 16


def shorten(key: bytes) -> int:
    """A long key as a number: as good as the key itself, and of another type than keys that are kept as they are."""
    return int.from_bytes(hashlib.blake2b(key, digest_size=_DIGEST_BYTES).digest())


class KeyOffsets:
    """Key to newest offset. Numbers hold the offset twice, plus one for a tombstone."""

    __slots__ = ("_entries_max", "_survivors", "newest", "start_offset")

    def __init__(self, bytes_max: int, start_offset: int) -> None:
        self._entries_max = max(bytes_max // ENTRY_BYTES, 1)
        self._survivors: array[int] | None = None
        # Every batch from here on was noted.
        self.start_offset = start_offset
        self.newest: dict[Hashable, int] = {}

    @property
    def is_full(self) -> bool:
        return len(self.newest) >= self._entries_max

    def note(self, body: bytes, count: int, base_offset: int) -> None:
        """Take the records of a batch into account; it comes after all that came before."""
        note_keys(body, count, base_offset, self.newest, shorten)

    def complete(self) -> None:
        """All batches are noted."""
        self._survivors = array("q", sorted(self.newest.values()))

    def survivors(self, first_offset: int, last_offset: int) -> array[int]:
        """The numbers of all noted records from `first_offset` to `last_offset` that are the newest of their key."""
        assert self._survivors is not None
        start = bisect_left(self._survivors, first_offset * 2)
        return self._survivors[start : bisect_left(self._survivors, last_offset * 2 + 2, start)]
