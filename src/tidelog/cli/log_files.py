"""Reads log, index and snapshot files of a partition as they lie on disk, for `tidelog dump log` and kafka-dump-log.

It never writes, takes no locks, and goes on past what is damaged where it can: that is what people look for.
"""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Final

from tidelog.cli.failures import BadInput
from tidelog.model.errors import ProtocolError
from tidelog.wire.batch import BatchHeader, is_crc_valid, iter_headers
from tidelog.wire.records import Record, read_records

OFFSET_ENTRY: Final = Struct(">ii")
TIME_ENTRY: Final = Struct(">qi")


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """One batch of a log file."""

    position: int
    header: BatchHeader
    is_valid: bool
    view: memoryview

    def records(self) -> list[Record]:
        """Decode it; ProtocolError when it cannot be."""
        return read_records(self.view, check_crc=False)


class LogFile:
    """The batches of one file. `trailing_bytes` says, after all were read, how many at its end are none."""

    def __init__(self, path: Path, bytes_max: int | None = None) -> None:
        self.path = path
        self.trailing_bytes = 0
        self._bytes_max = bytes_max

    def batches(self) -> Iterator[StoredBatch]:
        """Every whole batch in order."""
        with contextlib.ExitStack() as stack:
            file = stack.enter_context(self.path.open("rb"))
            size = self.path.stat().st_size
            if size == 0:
                return
            mapped = stack.enter_context(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            view = memoryview(mapped)
            stack.callback(view.release)
            limited = view[: self._bytes_max]
            stack.callback(limited.release)
            end = 0
            with contextlib.suppress(ProtocolError):
                for position, header in iter_headers(limited):
                    end = position + header.size_bytes
                    with limited[position:end] as batch:
                        yield StoredBatch(position, header, is_crc_valid(batch, header), batch)
            self.trailing_bytes = 0 if self._bytes_max is not None else size - end


def base_offset_of(path: Path) -> int:
    """The offset that a file is named after."""
    name = path.name.partition(".")[0]
    if not name.isdigit():
        raise BadInput(f"{path.name} is not named after an offset, as files of a log are.")
    return int(name)


def offset_entries(path: Path) -> list[tuple[int, int]]:
    """(offset, position) of an offset index. The space that a broker has reserved at its end is left out."""
    base = base_offset_of(path)
    entries = [(base + relative, position) for relative, position in _entries(path, OFFSET_ENTRY)]
    return _until_reserved(entries, base, 0)


def time_entries(path: Path) -> list[tuple[int, int]]:
    """(timestamp, offset) of a time index."""
    base = base_offset_of(path)
    entries = [(timestamp, base + relative) for timestamp, relative in _entries(path, TIME_ENTRY)]
    return _until_reserved(entries, base, 1)


def _entries(path: Path, entry: Struct) -> Iterator[tuple[int, int]]:
    content = path.read_bytes()
    whole = len(content) - len(content) % entry.size
    yield from entry.iter_unpack(content[:whole])


def _until_reserved(entries: list[tuple[int, int]], base: int, offset_column: int) -> list[tuple[int, int]]:
    """A broker that runs, or crashed, leaves zeros behind the last entry: they look like the base offset again."""
    for number, entry in enumerate(entries):
        if number > 0 and entry[offset_column] == base:
            return entries[:number]
    return entries
