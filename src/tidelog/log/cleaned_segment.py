"""Writing the segment that takes the place of others after compaction: batches and indexes, under names that are no
part of the log yet.

Everything is on the disk when `complete` returns; `log/swap.py` gives the files their names. May run in a thread.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Final

from tidelog.env.files import Bytes, Files
from tidelog.log.offset_index import OffsetIndex
from tidelog.log.segment import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    file_name,
)
from tidelog.log.swap import CLEANED_SUFFIX
from tidelog.log.time_index import TimeIndex
from tidelog.log.transaction_index import AbortedTransaction, TransactionIndex
from tidelog.model.ids import NO_TIMESTAMP, Offset
from tidelog.wire.batch import BatchHeader

# Batches that remain are written in lumps of about this size.
WRITE_BYTES: Final = 1024 * 1024
# Smaller ones are copied: each would keep all that was read together with it in memory until it is written.
COPIED_BYTES_MAX: Final = 64 * 1024


class CleanedSegment:
    """A segment in the making."""

    __slots__ = (
        "_buffered_bytes",
        "_buffers",
        "_file",
        "_files",
        "_interval",
        "_largest",
        "_offset_index",
        "_paths",
        "_row_at",
        "_time_index",
        "_transaction_index",
        "base_offset",
        "last_offset",
        "size",
    )

    def __init__(self, files: Files, directory: str, base_offset: Offset, interval: int) -> None:
        self._files = files
        self.base_offset = base_offset
        self._paths = {
            suffix: f"{directory}/{file_name(base_offset, suffix)}{CLEANED_SUFFIX}" for suffix in SEGMENT_SUFFIXES
        }
        self.discard()  # What a pass that was given up may have left.
        self._file = files.open(self._paths[LOG_SUFFIX], create=True)
        self._offset_index = OffsetIndex(files, self._paths[OFFSET_INDEX_SUFFIX], base_offset)
        self._time_index = TimeIndex(files, self._paths[TIME_INDEX_SUFFIX], base_offset)
        self._transaction_index = TransactionIndex(files, self._paths[TRANSACTION_INDEX_SUFFIX])
        self._interval = interval
        self._row_at = 0
        self._largest = (NO_TIMESTAMP, int(base_offset))
        self._buffers: list[Bytes] = []
        self._buffered_bytes = 0
        self.last_offset = base_offset - 1
        self.size = 0

    def add(self, header: BatchHeader, batch: Bytes) -> None:
        """Append a batch, whose header this is. Raises OSError."""
        last, position = header.last_offset, self.size
        if header.max_timestamp > self._largest[0]:
            self._largest = (header.max_timestamp, last)
        if position - self._row_at > self._interval:
            self._offset_index.add(last, position)
            self._time_index.add(*self._largest)
            self._row_at = position
        self._buffers.append(bytes(batch) if len(batch) <= COPIED_BYTES_MAX else batch)
        self._buffered_bytes += len(batch)
        self.size += len(batch)
        self.last_offset = last
        if self._buffered_bytes >= WRITE_BYTES:
            self._write()

    def add_aborted(self, transactions: Iterable[AbortedTransaction]) -> None:
        """Readers of this segment must still be told of these."""
        for transaction in transactions:
            self._transaction_index.add(transaction)

    def _write(self) -> None:
        if self._buffers:
            self._file.write(self._buffers, self.size - self._buffered_bytes)
            self._buffers = []
            self._buffered_bytes = 0

    def complete(self) -> None:
        """Put everything on the disk. All four files are there then, so that a swap knows what it has done already."""
        self._write()
        if self._largest[0] >= 0:
            self._time_index.add(*self._largest)
        self._offset_index.write_out()
        self._time_index.write_out()
        self._files.open(self._paths[TRANSACTION_INDEX_SUFFIX], create=True).close()
        self._file.sync()
        self._file.close()
        self._offset_index.sync()
        self._time_index.sync()
        self._transaction_index.sync()

    def discard(self) -> None:
        """Remove the files."""
        for path in self._paths.values():
            with contextlib.suppress(FileNotFoundError):
                self._files.remove(path)
