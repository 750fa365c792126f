"""One segment of a log: a `.log` file of batches and the indexes that lead into it.

Only the last segment of a log is appended to: batches are staged, then written together. Sealed segments never change
and cost nothing until somebody reads them. Called by a partition's log alone (`log/log_end.py`, `log/partition.py`);
offsets and epochs are its business, not ours.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Final

from tidelog.env.files import Bytes, File, Files
from tidelog.log.batch_walk import Landmark, walk
from tidelog.log.config import LogConfig
from tidelog.log.errors import CorruptLog
from tidelog.log.file_slice import FileSlice
from tidelog.log.offset_index import RELATIVE_OFFSET_MAX, OffsetIndex
from tidelog.log.open_files import OpenFiles
from tidelog.log.time_index import TIME_ENTRY, TimeIndex, TimestampedOffset
from tidelog.log.transaction_index import TransactionIndex
from tidelog.model.ids import NO_TIMESTAMP, Offset
from tidelog.wire.batch_run import BatchRun

LOG_SUFFIX: Final = ".log"
OFFSET_INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TRANSACTION_INDEX_SUFFIX: Final = ".txnindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"
DELETED_SUFFIX: Final = ".deleted"
# Behind `.log`: no part of the log any more, and on its way to the archive.
ARCHIVE_SUFFIX: Final = ".archive"
SEGMENT_SUFFIXES: Final = (LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)

# Where readers left off is remembered for this many of them in each segment.
REMEMBERED_POSITIONS_MAX: Final = 128
# Index entries kept in memory before they go to the file: they cover 2 MiB of log at the default interval.
UNWRITTEN_ROWS_MAX: Final = 512
# A position in a segment is a signed 32-bit number for Apache Kafka.
SEGMENT_BYTES_MAX: Final = 2**31 - 1
# Until somebody asks for the largest timestamp of a segment that was there before us.
NOT_KNOWN_YET: Final = -2


def file_name(offset: int, suffix: str) -> str:
    """The name of a segment's file: its base offset in 20 digits."""
    return f"{offset:020d}{suffix}"


class Segment:
    """A run of batches from `base_offset` on."""

    __slots__ = (
        "_bytes_since_row",
        "_indexes_checked",
        "_interval",
        "_kept_bytes_since_row",
        "_kept_max_timestamp",
        "_kept_max_timestamp_offset",
        "_max_timestamp",
        "_max_timestamp_offset",
        "_positions",
        "_rows_max",
        "_rows_until",
        "_size",
        "_staged",
        "_staged_rows",
        "base_offset",
        "created_ms",
        "deleted",
        "directory",
        "file",
        "files",
        "first_timestamp",
        "full_at",
        "last_offset_max",
        "offset_index",
        "open_files",
        "staged_size",
        "time_index",
        "torn",
        "transaction_index",
        "used",
    )

    def __init__(self, open_files: OpenFiles, directory: str, base_offset: Offset, config: LogConfig) -> None:
        self.open_files = open_files
        self.files: Files = open_files.files
        self.directory = directory
        self.base_offset = base_offset
        self.file: File | None = None
        self.used = False
        self.deleted = False
        # Whether a failed write may have left bytes at the end that could not be cut off.
        self.torn = False
        self.created_ms = 0
        self._size: int | None = None
        self._indexes_checked = False
        # Up to this size of the segment the indexes surely have room; 0 when that is to be looked up.
        self._rows_until = 0
        # No batch may end behind these. A full index sets the first to 0.
        self.full_at = 0
        self.last_offset_max = base_offset + RELATIVE_OFFSET_MAX
        self.configure(config)
        self.offset_index = OffsetIndex(self.files, self.path(OFFSET_INDEX_SUFFIX), base_offset).on_disk()
        self.time_index = TimeIndex(self.files, self.path(TIME_INDEX_SUFFIX), base_offset).on_disk()
        self.transaction_index = TransactionIndex(self.files, self.path(TRANSACTION_INDEX_SUFFIX))
        # The largest timestamp, with the last offset of its batch: of what is staged, and of what is written.
        self._max_timestamp = self._kept_max_timestamp = NOT_KNOWN_YET
        self._max_timestamp_offset = self._kept_max_timestamp_offset = int(base_offset)
        self.first_timestamp: int | None = None
        self._positions: dict[int, int] = {}
        self._staged: list[Bytes] = []
        # Index entries for staged batches: last offset, position, largest timestamp so far and its offset.
        self._staged_rows: list[tuple[int, int, int, int]] = []
        self.staged_size = 0
        self._bytes_since_row = 0
        self._kept_bytes_since_row = 0

    @classmethod
    def create(
        cls, open_files: OpenFiles, directory: str, base_offset: Offset, config: LogConfig, now_ms: int
    ) -> Segment:
        """A new, empty segment with its files."""
        segment = cls(open_files, directory, base_offset, config)
        segment.created_ms = now_ms
        file = open_files.open(segment, segment.path(LOG_SUFFIX), create=True)
        if file.size():
            file.truncate(0)  # What a crash left of a segment that the log never came to have.
        segment.offset_index.reset()
        segment.time_index.reset()
        segment.transaction_index.reset()
        segment._size = 0
        segment._indexes_checked = True
        segment._set_largest(NO_TIMESTAMP, base_offset)
        return segment

    def configure(self, config: LogConfig) -> None:
        self._interval = config.index_interval_bytes
        self.full_at = min(config.segment_bytes, SEGMENT_BYTES_MAX)
        self._rows_until = 0
        # Both indexes fit into the limit when the one with the larger entries does; a last entry is added when sealing.
        self._rows_max = max(config.segment_index_bytes // TIME_ENTRY.size - 1, 1)

    def path(self, suffix: str) -> str:
        return f"{self.directory}/{self.base_offset:020d}{suffix}"

    def __repr__(self) -> str:
        return f"Segment({self.path(LOG_SUFFIX)!r})"

    # --- what it is ---------------------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Bytes written. Asks the disk once, for a segment that was there before us."""
        size = self._size
        if size is None:
            size = self._size = self.staged_size = self.files.size(self.path(LOG_SUFFIX))
        return size

    def opened(self) -> File:
        file = self.file
        if file is None:
            return self.open_files.open(self, self.path(LOG_SUFFIX))
        self.used = True
        return file

    def largest_timestamp(self) -> TimestampedOffset:
        """The largest timestamp of any written batch; a sealed segment has it at the end of its time index."""
        if self._max_timestamp == NOT_KNOWN_YET:
            if not self._indexes_checked:
                self.check_indexes()
            self._set_largest(*self.time_index.newest())
        return TimestampedOffset(self._kept_max_timestamp, Offset(self._kept_max_timestamp_offset))

    def _set_largest(self, timestamp: int, offset: int) -> None:
        self._max_timestamp = self._kept_max_timestamp = timestamp
        self._max_timestamp_offset = self._kept_max_timestamp_offset = offset

    def next_offset(self) -> Offset:
        """The offset after the last batch: from the last index entry, then a few headers further."""
        last = self.offset_index.last()
        start = last[1] if last else 0
        following = self.base_offset
        for landmark in walk(self.opened(), start, self.size):
            following = Offset(landmark.last_offset + 1)
        return following

    # --- appending ----------------------------------------------------------------------------------------------------

    def resume(self, now_ms: int) -> Offset:
        """Become the one that is appended to, as it was left on the disk; gives the offset after its last batch."""
        self.check_indexes()
        self.created_ms = now_ms
        self._count_bytes_since_row()
        return self.next_offset()

    def _count_bytes_since_row(self) -> None:
        """From the disk: or each start would leave a stretch without an entry, and it may be a large batch."""
        last = self.offset_index.last()
        self._bytes_since_row = self._kept_bytes_since_row = self.size - (last[1] if last else 0)

    def prepare_to_append(self) -> None:
        """Learn of an existing segment what appending needs: its size, largest and first timestamp."""
        self.largest_timestamp()
        if self.first_timestamp is None and self.size:
            self.first_timestamp = next(walk(self.opened(), 0, self.size)).max_timestamp

    def stage(self, view: Bytes, length: int, last_offset: int, max_timestamp: int) -> None:
        """Take a batch to be written with the next `write_staged`."""
        position = self.staged_size
        if max_timestamp > self._max_timestamp:
            self._max_timestamp = max_timestamp
            self._max_timestamp_offset = last_offset
        since = self._bytes_since_row
        if since > self._interval:
            self._staged_rows.append((last_offset, position, self._max_timestamp, self._max_timestamp_offset))
            since = 0
            if position >= self._rows_until and not self._has_row():
                self.full_at = 0
        self._bytes_since_row = since + length
        self.staged_size = position + length
        self._staged.append(view)

    def has_rows_for(self, size_bytes: int) -> bool:
        """Whether the indexes surely have room for all of so many bytes."""
        if self.staged_size + size_bytes > self._rows_until:
            self._has_row()
        return self.staged_size + size_bytes <= self._rows_until

    def _has_row(self) -> bool:
        """Whether the indexes have room for one entry more, and how far they will last: asked again only then."""
        rows = self._rows_max - self.offset_index.count - len(self._staged_rows)
        # Between two entries are more bytes than the interval, and the next one may be due at once.
        self._rows_until = self.staged_size + (rows - 2) * (self._interval + 1)
        return rows > 0

    def stage_run(self, run: BatchRun, offsets: Sequence[Offset], size_bytes: int, latest: int) -> None:
        """Take batches that have their offsets, the one after the last included: the same as `stage` for each."""
        position, since, interval = self.staged_size, self._bytes_since_row, self._interval
        if since + size_bytes > interval:
            since = self._stage_rows(run, offsets)
        else:
            since += size_bytes
            if latest > self._max_timestamp:
                self._max_timestamp = latest
                self._max_timestamp_offset = offsets[run.max_timestamps.index(latest) + 1] - 1
        self._bytes_since_row = since
        self.staged_size = position + size_bytes
        self._staged += run.views

    def _stage_rows(self, run: BatchRun, offsets: Sequence[Offset]) -> int:
        """Go through a run with which index entries may become due; gives the bytes since the last one."""
        position, since, interval = self.staged_size, self._bytes_since_row, self._interval
        latest = self._max_timestamp
        for number, (view, max_timestamp) in enumerate(zip(run.views, run.max_timestamps, strict=True), 1):
            if max_timestamp > latest:
                latest = self._max_timestamp = max_timestamp
                self._max_timestamp_offset = offsets[number] - 1
            if since > interval:
                self._staged_rows.append((offsets[number] - 1, position, latest, self._max_timestamp_offset))
                since = 0
            length = len(view)
            since += length
            position += length
        return since

    def write_staged(self) -> None:
        """One gathered write of all that is staged, then the index entries. On OSError nothing of it stays."""
        staged = self._staged
        size = self._size
        assert size is not None
        try:
            (self.file or self.opened()).write(staged, size)
            self.used = True
        except OSError:
            self.drop_staged()
            # A part may have been written. It must not be taken for a batch, not even after a restart.
            self.torn = True
            with contextlib.suppress(OSError):
                self._cut(size)
                self.torn = False
            raise
        self._size = self.staged_size
        self._staged = []
        self._kept_max_timestamp = self._max_timestamp
        self._kept_max_timestamp_offset = self._max_timestamp_offset
        self._kept_bytes_since_row = self._bytes_since_row
        if self._staged_rows:
            self._add_staged_rows()

    def _cut(self, size: int) -> None:
        """Shorten the file, durably: after a crash no old batch may follow the new ones that are written here next."""
        file = self.opened()
        file.truncate(size)
        file.sync()
        self._size = self.staged_size = size

    def _add_staged_rows(self) -> None:
        rows, self._staged_rows = self._staged_rows, []
        self.time_index.add_rows(rows)
        if self.offset_index.add_rows(rows) >= UNWRITTEN_ROWS_MAX:
            # An index that is behind is rebuilt after a crash, so a full disk may wait until the segment is sealed.
            with contextlib.suppress(OSError):
                self.write_indexes()

    def drop_staged(self) -> None:
        """Forget what was staged and not written."""
        self._staged = []
        self._staged_rows = []
        self.staged_size = self.size
        self._max_timestamp = self._kept_max_timestamp
        self._max_timestamp_offset = self._kept_max_timestamp_offset
        self._bytes_since_row = self._kept_bytes_since_row
        self._rows_until = 0

    def write_indexes(self) -> None:
        self.offset_index.write_out()
        self.time_index.write_out()

    def note_largest_timestamp(self) -> None:
        """A segment that is sealed or closed has its largest timestamp as the last entry of the time index."""
        largest = self.largest_timestamp()
        if largest.timestamp >= 0:
            self.time_index.add(largest.timestamp, largest.offset)

    def seal(self) -> None:
        """No batch will follow: complete the indexes on disk and let them go from memory."""
        assert not self._staged
        self.note_largest_timestamp()
        self.offset_index.unload()
        self.time_index.unload()

    # --- reading ------------------------------------------------------------------------------------------------------

    def position_of(self, offset: int) -> int:
        """Where the first batch starts that holds `offset` or comes after it; the size when there is none."""
        if offset <= self.base_offset:
            return 0
        position = self._positions.get(offset)
        if position is None:
            if not self._indexes_checked:
                self.check_indexes()
            size = position = self.size
            for landmark in walk(self.opened(), self.offset_index.lookup(offset), size):
                if landmark.last_offset >= offset:
                    position = landmark.position
                    break
            self._remember(offset, position)
        return position

    def _remember(self, offset: int, position: int) -> None:
        positions = self._positions
        if len(positions) >= REMEMBERED_POSITIONS_MAX:
            del positions[next(iter(positions))]
        positions[offset] = position

    def read(
        self, offset: int, max_bytes: int, end: int, end_offset: int, at_least_one_batch: bool
    ) -> FileSlice | None:
        """Whole batches from the one that holds `offset` on, up to `end`, which is where `end_offset` will be or is."""
        start = self._positions.get(offset)
        if start is None:
            start = self.position_of(offset)
        if start >= end:
            return None
        if start + max_bytes >= end:
            if end_offset not in self._positions:
                self._remember(end_offset, end)
            return FileSlice(self.file or self.opened(), start, end - start, end_offset)
        return self._read_part(start, max_bytes, end, at_least_one_batch)

    def _read_part(self, start: int, max_bytes: int, end: int, at_least_one_batch: bool) -> FileSlice | None:
        file = self.opened()
        boundary = self.offset_index.boundary_at_or_before(start + max_bytes)
        if boundary > start:
            # Cut at an indexed batch, and remember where the reader will go on.
            following = int.from_bytes(file.read(8, boundary), "big")
            self._remember(following, boundary)
            return FileSlice(file, start, boundary - start, following)
        last: Landmark | None = None
        for landmark in walk(file, start, end):
            if landmark.end > start + max_bytes:
                if last is None and at_least_one_batch:
                    last = landmark
                break
            last = landmark
        if last is None:
            return None
        self._remember(last.last_offset + 1, last.end)
        return FileSlice(file, start, last.end - start, last.last_offset + 1)

    # --- changing what is there ---------------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> None:
        """Cut the batch that holds `offset` and everything after it."""
        assert not self._staged
        position = self.position_of(offset)
        self._positions.clear()
        if position < self.size:
            self._cut(position)
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.transaction_index.truncate_to(offset)
        self._count_bytes_since_row()
        self._rows_until = 0
        largest = self.time_index.newest()
        for landmark in walk(self.opened(), self.offset_index.lookup(largest.offset), position):
            if landmark.max_timestamp > largest.timestamp:
                largest = TimestampedOffset(landmark.max_timestamp, Offset(landmark.last_offset))
        self._set_largest(*largest)
        if position == 0:
            self.first_timestamp = None

    def begin_rebuild(self) -> None:
        """Forget all that is derived from the batches, on disk too."""
        self.offset_index.reset()
        self.time_index.reset()
        self._rows_until = 0
        self._positions.clear()

    def add_row(self, last_offset: int, position: int, timestamp: int, timestamp_offset: int) -> None:
        """Add to both indexes: where a batch is, and the largest timestamp up to it with its offset."""
        self.offset_index.add(last_offset, position)
        self.time_index.add(timestamp, timestamp_offset)

    def end_rebuild(self, end: int, largest: TimestampedOffset) -> None:
        """Cut the file at `end` and complete the indexes."""
        if end < self.size:
            self._cut(end)
        self._set_largest(*largest)
        self._indexes_checked = True
        self.note_largest_timestamp()
        self.write_indexes()

    def check_indexes(self) -> None:
        """Make the indexes again when they cannot be right: missing, cut in the middle, pointing behind the end."""
        self._indexes_checked = True
        try:
            self.offset_index.check(self.size)
            self.time_index.check(self.size)
        except CorruptLog:
            self._rebuild_indexes()

    def _rebuild_indexes(self) -> None:
        self.begin_rebuild()
        largest = TimestampedOffset(NO_TIMESTAMP, self.base_offset)
        row_at = 0
        for landmark in walk(self.opened(), 0, self.size):
            if landmark.max_timestamp > largest.timestamp:
                largest = TimestampedOffset(landmark.max_timestamp, Offset(landmark.last_offset))
            if landmark.position - row_at > self._interval:
                self.add_row(landmark.last_offset, landmark.position, *largest)
                row_at = landmark.position
        self.end_rebuild(self.size, largest)
        # The segment may be one that recovery trusts.
        self.offset_index.sync()
        self.time_index.sync()

    def sync_batches(self) -> None:
        """Make the batches durable. May run in a thread; touches nothing that appending touches."""
        file = self.file or self.files.open(self.path(LOG_SUFFIX))
        file.sync()

    def sync(self) -> None:
        """Make the batches and the indexes durable. May run in a thread."""
        self.sync_batches()
        self.offset_index.sync()
        self.time_index.sync()
        self.transaction_index.sync()

    def close(self) -> None:
        self.open_files.close(self)

    def remove_files(self) -> None:
        """Remove the files at once, for a segment that no reader knows."""
        self.close()
        for path in self.rename_to_deleted():
            self.files.remove(path)

    def rename_for_archive(self, first_offset: int) -> str:
        """Set the batches aside under the first offset that is still wanted; returns their new name. The rest can be
        made of them again."""
        path = f"{self.directory}/{file_name(first_offset, LOG_SUFFIX)}{ARCHIVE_SUFFIX}"
        self.files.rename(self.path(LOG_SUFFIX), path)
        return path

    def rename_to_deleted(self) -> list[str]:
        """Give the files the suffix that says they are no part of the log; returns their new names."""
        self.deleted = True
        renamed = []
        for suffix in SEGMENT_SUFFIXES:
            path = self.path(suffix)
            with contextlib.suppress(FileNotFoundError):
                self.files.rename(path, path + DELETED_SUFFIX)
                renamed.append(path + DELETED_SUFFIX)
        return renamed
