"""The `.txnindex` file of a segment: the aborted transactions that end in it, 34 bytes each.

A consumer that reads only committed records is told of them and drops their records. The file exists only when there
are any.
"""

from __future__ import annotations

import contextlib
from struct import Struct
from typing import Final, NamedTuple

from tidelog.env.files import Files, read_all
from tidelog.log.errors import CorruptLog
from tidelog.model.ids import Offset, ProducerId

# version, producer id, first offset, last offset (of the marker), last stable offset at that time
_ENTRY: Final = Struct(">hqqqq")
_VERSION: Final = 0


class AbortedTransaction(NamedTuple):
    """A transaction whose records from `first_offset` to the abort marker at `last_offset` do not count."""

    producer_id: ProducerId
    first_offset: Offset
    last_offset: Offset
    last_stable_offset: Offset


def aborted_in(data: bytes, path: str) -> list[AbortedTransaction]:
    """What the bytes of an index say; a torn entry at the end is left out. Raises CorruptLog."""
    aborted = []
    for version, producer, first, last, stable in _ENTRY.iter_unpack(data[: len(data) // _ENTRY.size * _ENTRY.size]):
        if version > _VERSION:
            raise CorruptLog(f"{path} has an entry of the unknown version {version}")
        aborted.append(AbortedTransaction(ProducerId(producer), Offset(first), Offset(last), Offset(stable)))
    return aborted


class TransactionIndex:
    """The aborted transactions of one segment, in the order of their markers."""

    ENTRY_BYTES: Final = _ENTRY.size

    __slots__ = ("_files", "_is_absent", "_path")

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._path = path
        # Whether there is known to be no file: most segments have none, and readers ask with every fetch.
        self._is_absent = False

    def add(self, aborted: AbortedTransaction) -> None:
        self._is_absent = False
        file = self._files.open(self._path, create=True)
        try:
            size = file.size()
            file.write([_ENTRY.pack(_VERSION, *aborted)], size - size % _ENTRY.size)
        finally:
            file.close()

    def all(self) -> list[AbortedTransaction]:
        if self._is_absent:
            return []
        try:
            data = read_all(self._files, self._path)
        except FileNotFoundError:
            self._is_absent = True
            return []
        return aborted_in(data, self._path)

    def overlapping(self, start: Offset, up_to: Offset) -> tuple[list[AbortedTransaction], bool]:
        """The aborted transactions with records in [start, up_to), and whether later segments hold no more of them."""
        found = []
        for aborted in self.all():
            if aborted.last_offset >= start and aborted.first_offset < up_to:
                found.append(aborted)
            if aborted.last_stable_offset >= up_to:
                return found, True
        return found, False

    def truncate_to(self, offset: int) -> None:
        """Forget transactions whose marker is at `offset` or after it."""
        everything = self.all()
        keep = sum(aborted.last_offset < offset for aborted in everything)
        if keep < len(everything):
            file = self._files.open(self._path)
            try:
                file.truncate(keep * _ENTRY.size)
            finally:
                file.close()

    def reset(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._files.remove(self._path)

    def sync(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            file = self._files.open(self._path)
            try:
                file.sync()
            finally:
                file.close()
