"""Keys and their newest offsets as a table of hashes, filled and asked by the compiled kernel for a lot at once.

A key is known by 128 bits of SipHash under a secret that is made anew for each table, so that nobody can make keys that
collide. The kernel runs without the interpreter's lock: requests are served meanwhile.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import struct
from array import array
from typing import Any, Final

from tidelog.log.record_lot import NOTHING_REMAINS, RecordLot, Remaining
from tidelog.wire.keys import kernel

SLOT_BYTES: Final = 8 * kernel.SLOT_NUMBERS
# Of five slots four are used at most: then a look-up passes a few slots, all in a row.
SLOTS_OF_FOUR_KEYS: Final = 5
SLOTS_MAX: Final = 2**32 - 1
# So many records are located, hashed and judged one step after the other.
ROWS_MAX: Final = 8192
# A bit for each offset says whether it is the newest of its key; bits of so many offsets are made at a time.
MARKS_MAX: Final = 8 * 1024 * 1024
# Making them costs a look at each slot, which is so many times cheaper than looking for a key.
SLOTS_FOR_A_LOOKUP: Final = 8

SECRET_BYTES: Final = 16
JUDGED_BY_MARKS: Final = 1
KEEPS_TOMBSTONES: Final = 2
# What SipHash begins with, and what its variant of 128 bits adds to it.
_SIPHASH_STATE: Final = (0x736F6D6570736575, 0x646F72616E646F6D ^ 0xEE, 0x6C7967656E657261, 0x7465646279746573)


class KeyTable:
    """An open-addressing table. Tests know its secret, and have it use the kernel that is not compiled."""

    __slots__ = (
        "_entries",
        "_hashes",
        "_kernel",
        "_keys_max",
        "_lookups",
        "_marks",
        "_marks_count",
        "_marks_first",
        "_marks_max",
        "_out",
        "_rows",
        "_secret",
        "_slots",
        "_table",
    )

    ENTRY_BYTES: Final = SLOT_BYTES * SLOTS_OF_FOUR_KEYS // 4

    def __init__(
        self,
        keys_max: int,
        *,
        secret: bytes | None = None,
        marks_max: int = MARKS_MAX,
        rows_max: int = ROWS_MAX,
        using: Any = kernel,
    ) -> None:
        self._kernel = using
        self._slots = min(keys_max * SLOTS_OF_FOUR_KEYS // 4 + 1, SLOTS_MAX)
        self._keys_max = min(keys_max, self._slots - 1)
        self._table = _zeros(self._slots * SLOT_BYTES)
        self._entries = 0
        keys = struct.unpack("<QQ", secret or os.urandom(SECRET_BYTES)) * 2
        self._secret = array("Q", (number ^ key for number, key in zip(_SIPHASH_STATE, keys, strict=True)))
        self._rows = array("q", bytes(8 * kernel.ROW_NUMBERS * rows_max))
        self._hashes = array("Q", bytes(16 * rows_max))
        self._out = bytearray()
        self._marks_max = marks_max
        self._marks = bytearray(1)
        self._marks_count = 0
        self._marks_first = 0
        # How many look-ups the marks have spared or would have.
        self._lookups = self._slots

    def has_room(self, records: int) -> bool:
        return self._entries + records <= self._keys_max

    def note(self, lot: RecordLot) -> None:
        if not lot.bodies:
            return
        assert self.has_room(lot.records_count)
        walk = array("q", (0, -1, 0))
        bodies = array("q")
        for body in lot.bodies:
            bodies.extend((body.start, body.end, body.records_count, body.base_offset, 0, 0, 0, 0, 0, 0))
        entries = self._kernel.note(
            lot.data(),
            bodies,
            len(lot.bodies),
            walk,
            self._rows,
            len(self._rows) // kernel.ROW_NUMBERS,
            self._hashes,
            self._secret,
            self._table,
            self._slots,
            self._entries,
        )
        if entries < 0:
            raise lot.broken(walk[0])
        self._entries = entries

    def complete(self) -> None:
        """Nothing is to be done."""

    def is_any_newest(self, first_offset: int, last_offset: int) -> bool:
        if not self._has_marks(first_offset, last_offset) and not self._make_marks(first_offset, last_offset):
            return True
        marks_first = self._marks_first
        return bool(self._kernel.is_any_marked(self._marks, first_offset - marks_first, last_offset - marks_first))

    def keep(self, lot: RecordLot) -> list[Remaining]:
        if not lot.bodies:
            return []
        walk = array("q", (0, -1, 0))
        bodies = array("q")
        for body in lot.bodies:
            flags = KEEPS_TOMBSTONES if body.keeps_tombstones else 0
            if body.is_noted and self._has_marks(body.base_offset, body.last_offset):
                flags |= JUDGED_BY_MARKS
            bodies.extend((body.start, body.end, body.records_count, body.base_offset, flags, 0, 0, 0, 0, 0))
        self._lookups += lot.records_count
        if len(self._out) < lot.size:
            self._out = bytearray(lot.size)
        end = self._kernel.keep(
            lot.data(),
            bodies,
            len(lot.bodies),
            walk,
            self._rows,
            len(self._rows) // kernel.ROW_NUMBERS,
            self._hashes,
            self._secret,
            self._table,
            self._slots,
            self._marks,
            self._marks_first,
            self._marks_count,
            self._out,
        )
        if end < 0:
            raise lot.broken(walk[0])
        remaining: list[Remaining] = []
        kept = memoryview(bytes(memoryview(self._out)[:end]))
        for at in range(0, len(bodies), kernel.BODY_NUMBERS):
            count, tombstones, largest, start, stop = bodies[at + 5 : at + kernel.BODY_NUMBERS]
            remaining.append(Remaining(count, tombstones, largest, kept[start:stop]) if count else NOTHING_REMAINS)
        return remaining

    def hashes(self) -> list[bytes]:
        """The hashes of all keys that were noted."""
        slots = (self._table[at : at + kernel.SLOT_NUMBERS] for at in range(0, len(self._table), kernel.SLOT_NUMBERS))
        return [struct.pack("<QQ", first, second) for first, second, number in slots if number]

    def _has_marks(self, first_offset: int, last_offset: int) -> bool:
        return self._marks_first <= first_offset and last_offset < self._marks_first + self._marks_count

    def _make_marks(self, first_offset: int, last_offset: int) -> bool:
        """Make the marks from `first_offset` on, if they reach so far and the last ones were worth their price."""
        self._lookups += last_offset - first_offset + 1
        marks_max = self._marks_max
        if last_offset - first_offset >= marks_max or self._lookups * SLOTS_FOR_A_LOOKUP < self._slots:
            return False
        self._lookups = 0
        if not self._marks_count:
            self._marks = bytearray(marks_max // 8)
        self._marks_first, self._marks_count = first_offset, marks_max
        self._kernel.mark(self._table, self._slots, first_offset, self._marks, marks_max)
        return True


def _zeros(size: int) -> memoryview:
    """Numbers of 64 bits, in memory that the system gives by the page, large ones if it can, and gets back at once."""
    pages = mmap.mmap(-1, size)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):
            pages.madvise(mmap.MADV_HUGEPAGE)
    return memoryview(pages).cast("Q")
