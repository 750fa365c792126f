"""Keys and their newest offsets as a dict of Python's: for installations where nothing was compiled.

Some times slower than `log/key_table.py` and as right; `log/key_offsets.py` says which of them is used.
"""

from __future__ import annotations

import hashlib
from array import array
from bisect import bisect_left
from collections.abc import Hashable
from typing import Final

from tidelog.log.record_lot import NOTHING_REMAINS, Body, RecordLot, Remaining
from tidelog.wire.record_scan import Kept, keep_newest, largest_timestamp_delta, note_keys, record_bounds

_DIGEST_BYTES: Final = 16


def shorten(key: bytes) -> int:
    """A long key as a number: as good as the key itself, and of another type than keys that are kept as they are."""
    return int.from_bytes(hashlib.blake2b(key, digest_size=_DIGEST_BYTES).digest())


class KeyDict:
    """Key to newest offset. Numbers hold the offset twice, plus one for a tombstone."""

    __slots__ = ("_keys_max", "_newest", "_survivors")

    # What one key takes in memory: the key, its number, their places in the table and in the sorted list.
    ENTRY_BYTES: Final = 216

    def __init__(self, keys_max: int) -> None:
        self._keys_max = keys_max
        self._newest: dict[Hashable, int] = {}
        self._survivors: array[int] = array("q")

    def has_room(self, records: int) -> bool:
        return len(self._newest) + records <= self._keys_max

    def note(self, lot: RecordLot) -> None:
        data = bytes(lot.data())
        for body in lot.bodies:
            note_keys(data[body.start : body.end], body.records_count, body.base_offset, self._newest, shorten)

    def complete(self) -> None:
        self._survivors = array("q", sorted(self._newest.values()))

    def is_any_newest(self, first_offset: int, last_offset: int) -> bool:
        return len(self._between(first_offset, last_offset)) > 0

    def keep(self, lot: RecordLot) -> list[Remaining]:
        data = bytes(lot.data())
        return [self._keep(data[body.start : body.end], body) for body in lot.bodies]

    def _keep(self, data: bytes, body: Body) -> Remaining:
        if body.is_noted:
            # No key need be read again.
            bounds = record_bounds(data, body.records_count)
            survivors = self._between(body.base_offset, body.last_offset)
            deltas = [(number >> 1) - body.base_offset for number in survivors]
            kept = Kept([(bounds[delta], bounds[delta + 1]) for delta in deltas], sum(one & 1 for one in survivors))
        else:
            kept = keep_newest(
                data,
                body.records_count,
                body.base_offset,
                self._newest,
                shorten,
                keep_tombstones=body.keeps_tombstones,
            )
        if not kept.bounds:
            return NOTHING_REMAINS
        records = b"".join([data[start:end] for start, end in kept.bounds])
        return Remaining(len(kept.bounds), kept.tombstones, largest_timestamp_delta(data, kept.bounds), records)

    def _between(self, first_offset: int, last_offset: int) -> array[int]:
        """The numbers of all noted records in a range that are the newest of their key."""
        start = bisect_left(self._survivors, first_offset * 2)
        return self._survivors[start : bisect_left(self._survivors, last_offset * 2 + 2, start)]
