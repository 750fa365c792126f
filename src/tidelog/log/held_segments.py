"""The files of one partition as another process than its broker reads them: all opened at once, then held.

An open file outlives its name, so what retention, compaction or the topic's deletion do after `hold` takes nothing
away from who reads. `spark/segments.py` calls it. It never writes, takes no lock, and trusts nothing that the broker
keeps in memory alone: an index that is behind costs a longer walk.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from tidelog.env.files import ReadOnlyFiles, RealFile
from tidelog.log.batch_walk import walk
from tidelog.log.offset_index import OFFSET_ENTRY
from tidelog.log.segment import (
    DELETED_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    file_name,
)
from tidelog.log.swap import SWAP_SUFFIX
from tidelog.log.transaction_index import AbortedTransaction, aborted_in
from tidelog.model.ids import Offset
from tidelog.wire.batch import HEADER_BYTES, LENGTH_OVERHEAD_BYTES, LENGTH_POSITION, iter_headers

# A compacted segment takes its place in the time of a few renames and a sync; a folder that changes longer than this
# is one whose broker died in the middle of it, and will put it right when it starts.
SETTLING_S: Final = 10.0
SETTLING_PAUSE_S: Final = 0.02


class UnsettledFolder(Exception):
    """The files of a partition are being replaced, and that does not come to an end."""


class Chunk(NamedTuple):
    """Whole batches as they are in the file, and the aborted transactions that reach into them."""

    data: memoryview
    aborted: list[AbortedTransaction]


@dataclass(frozen=True, slots=True)
class HeldSegment:
    """One segment: its batches, and the index into them if there is one."""

    base_offset: Offset
    log: RealFile
    index: RealFile | None

    def position_of(self, offset: int) -> int:
        """Where the first batch begins that holds `offset` or comes after it; the size when there is none."""
        size = self.log.size()
        if offset <= self.base_offset:
            return 0
        for landmark in walk(self.log, self._indexed(offset), size):
            if landmark.last_offset >= offset:
                return landmark.position
        return size

    def _indexed(self, offset: int) -> int:
        """A position at or before the batch that holds `offset`, by bisection of the file."""
        if self.index is None:
            return 0
        low, high = 0, self.index.size() // OFFSET_ENTRY.size
        found = 0
        while low < high:
            middle = (low + high) // 2
            relative, position = OFFSET_ENTRY.unpack(self.index.read(OFFSET_ENTRY.size, middle * OFFSET_ENTRY.size))
            # Apache Kafka makes the index of an active segment in full length, of zeros.
            is_unused = not position and (middle or not relative)
            if is_unused or self.base_offset + relative > offset:
                high = middle
            else:
                low, found = middle + 1, position
        return found


class HeldSegments:
    """All segments of a partition from an offset on, as they were at one moment."""

    def __init__(self, segments: list[HeldSegment], aborted: list[AbortedTransaction]) -> None:
        self.segments = segments
        self._aborted = aborted

    @property
    def first_offset(self) -> Offset | None:
        """Where the files begin; None when there are none."""
        return self.segments[0].base_offset if self.segments else None

    def close(self) -> None:
        for segment in self.segments:
            segment.log.close()
            if segment.index is not None:
                segment.index.close()

    def chunks(self, start: Offset, end: Offset, chunk_bytes: int) -> Iterator[Chunk]:
        """The batches that hold the offsets from `start` on and before `end`, in pieces of about `chunk_bytes`."""
        for number, segment in enumerate(self.segments):
            following = self.segments[number + 1].base_offset if number + 1 < len(self.segments) else end
            if following <= start or segment.base_offset >= end:
                continue
            position = segment.position_of(start)
            while True:
                data, next_offset = _whole_batches(segment.log, position, chunk_bytes)
                if not data:
                    break
                position += len(data)
                # One that ended before would be taken for one that goes on.
                yield Chunk(data, [one for one in self._aborted if one.last_offset >= start])
                start = max(start, next_offset)
                if start >= end:
                    return


def hold(folder: str, start: Offset) -> HeldSegments:
    """Open what a partition's folder has from an offset on. Raises FileNotFoundError without folder, UnsettledFolder.

    Segments that retention has removed a moment ago still have their files, under another name, for
    `file.delete.delay.ms`: whoever has planned to read them before finds them there.
    """
    deadline = time.monotonic() + SETTLING_S
    while True:
        held = _try_to_hold(folder, start)
        if held is not None:
            return held
        if time.monotonic() > deadline:
            raise UnsettledFolder(f"{folder} is in the middle of a change that does not end; is its broker running?")
        time.sleep(SETTLING_PAUSE_S)


def _try_to_hold(folder: str, start: Offset) -> HeldSegments | None:
    """None when the files were not the same before and after they were opened."""
    names = _names(folder)
    if names is None:
        return None
    segments: list[HeldSegment] = []
    aborted: list[AbortedTransaction] = []
    complete = False
    try:
        for base, suffix in _chosen(names, start):
            path = f"{folder}/{file_name(base, LOG_SUFFIX)}{suffix}"
            log = _open(path)
            if log is None:
                return None
            segments.append(
                HeldSegment(Offset(base), log, _open(f"{folder}/{file_name(base, OFFSET_INDEX_SUFFIX)}{suffix}"))
            )
            transactions = f"{folder}/{file_name(base, TRANSACTION_INDEX_SUFFIX)}{suffix}"
            with contextlib.closing(_open(transactions) or _NOTHING) as file:
                aborted += aborted_in(file.read(file.size(), 0), transactions)
        complete = _names(folder) is not None and all(_is_still(segment.log) for segment in segments)
        return HeldSegments(segments, aborted) if complete else None
    finally:
        if not complete:
            HeldSegments(segments, []).close()


def _names(folder: str) -> set[str] | None:
    """The names in a folder; None while a compacted segment is taking the place of others."""
    names = set(os.listdir(folder))  # noqa: PTH208 - names are wanted, not paths.
    return None if any(name.endswith(LOG_SUFFIX + SWAP_SUFFIX) for name in names) else names


def _chosen(names: set[str], start: int) -> list[tuple[int, str]]:
    """Base offset and further suffix of the segments to open: from the one that holds `start` on."""
    live = _bases(names, LOG_SUFFIX)
    removed = [base for base in _bases(names, LOG_SUFFIX + DELETED_SUFFIX) if not live or base < live[0]]
    everything = [(base, DELETED_SUFFIX) for base in removed] + [(base, "") for base in live]
    first = max((number for number, (base, _) in enumerate(everything) if base <= start), default=0)
    return everything[first:]


def _bases(names: set[str], suffix: str) -> list[int]:
    found = (name.removesuffix(suffix) for name in names if name.endswith(suffix))
    return sorted(int(digits) for digits in found if digits.isdigit())


def _open(path: str) -> RealFile | None:
    with contextlib.suppress(FileNotFoundError):
        return ReadOnlyFiles().open(path)
    return None


def _is_still(file: RealFile) -> bool:
    """Whether the name still leads to the file that is open."""
    try:
        named = os.stat(file.path)  # noqa: PTH116
    except FileNotFoundError:
        return False
    return os.path.samestat(named, os.fstat(file.fileno()))


def _whole_batches(file: RealFile, position: int, chunk_bytes: int) -> tuple[memoryview, Offset]:
    """Whole batches from a position on, one at least, and the offset after them; nothing at the end of the file."""
    data = file.read(max(chunk_bytes, HEADER_BYTES), position)
    if len(data) >= HEADER_BYTES:
        first_bytes = int.from_bytes(data[LENGTH_POSITION : LENGTH_POSITION + 4], "big") + LENGTH_OVERHEAD_BYTES
        if first_bytes > len(data):
            data = file.read(first_bytes, position)
    end, next_offset = 0, Offset(0)
    for where, header in iter_headers(data):
        end, next_offset = where + header.size_bytes, header.next_offset
    return memoryview(data)[:end], next_offset


class _Nothing:
    """A file that is not there."""

    def size(self) -> int:
        return 0

    def read(self, length: int, position: int) -> bytes:
        return b""

    def close(self) -> None:
        pass


_NOTHING: Final = _Nothing()
