"""Which record of each key is the newest: the memory of one compaction, which has a bound.

Filled from the dirty part of a log, lot by lot, until it is full; a log with more keys is compacted in passes.
`log/compaction.py` fills it and `log/batch_filter.py` asks it what may go. There are two, which keep the same records:
the compiled table (`log/key_table.py`) and, where nothing was compiled, a dict (`log/key_dict.py`).
"""

from __future__ import annotations

from typing import Final, Protocol

from tidelog.log.key_dict import KeyDict
from tidelog.log.key_table import KeyTable
from tidelog.log.record_lot import RecordLot, Remaining
from tidelog.wire.keys.compiled import COMPILED

ENTRY_BYTES: Final = KeyTable.ENTRY_BYTES if COMPILED else KeyDict.ENTRY_BYTES


class KeyOffsets(Protocol):
    """Keys and the newest offset of each. A record without key supersedes nothing."""

    def has_room(self, records: int) -> bool:
        """Whether so many more keys would fit."""
        ...

    def note(self, lot: RecordLot) -> None:
        """Take records into account that come after all that came before. INVALID_RECORD if they are broken."""
        ...

    def complete(self) -> None:
        """Everything is noted."""
        ...

    def is_any_newest(self, first_offset: int, last_offset: int) -> bool:
        """Whether one of these offsets may be the newest of its key; all of their records were noted."""
        ...

    def keep(self, lot: RecordLot) -> list[Remaining]:
        """What stays of each batch of a lot. INVALID_RECORD if records are broken."""
        ...


def new_key_offsets(bytes_max: int, records_max: int, first_batch_records: int) -> KeyOffsets:
    """An empty memory of that many bytes, less if `records_max` records need no more.

    It has room for a first batch whatever that takes, so that every pass gets further than the last.
    """
    keys_max = max(min(bytes_max // ENTRY_BYTES, records_max), first_batch_records, 1)
    return KeyTable(keys_max) if COMPILED else KeyDict(keys_max)
