"""The folder that expired segments are moved to, and the way back: an archive holds `.log` files only, each named after
the first offset in it that its readers could still see.

`Archive.take` runs in a thread of the broker. `restore` is for a tool: it makes a read-only log of what is there, every
batch checked. Neither touches a log that is in use.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from tidelog.env.clock import Clock
from tidelog.env.files import Files
from tidelog.log.checkpoints import TEMPORARY_SUFFIX, encode_uuid, write_read_only
from tidelog.log.config import LogConfig
from tidelog.log.errors import CorruptLog
from tidelog.log.open_files import OpenFiles
from tidelog.log.partition import PartitionLog
from tidelog.log.recovery import create_log
from tidelog.log.repair import EVERYWHERE, valid_batches
from tidelog.log.segment import ARCHIVE_SUFFIX, LOG_SUFFIX, file_name
from tidelog.model.ids import Offset, TopicPartition
from tidelog.wire.batch import BatchHeader

COPY_BYTES: Final = 4 * 1024 * 1024
# Behind the name of a partition's folder: made by `restore`, taken when the topic is created.
RESTORED_SUFFIX: Final = ".restored"


class Archive:
    """One folder. Within it every topic has its own, named after its id too: a name may be used again."""

    __slots__ = ("_files", "path")

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self.path = path.rstrip("/")

    def folder_of(self, log: PartitionLog) -> str:
        topic = log.partition.topic
        owner = f"{topic}.{encode_uuid(log.topic_id)}" if log.topic_id is not None else topic
        return f"{self.path}/{owner}/{log.partition}"

    def take(self, log: PartitionLog) -> int:
        """Move the files that wait in the folder of this log; returns how many. Raises OSError; what is left waits on.

        Each is in the archive for certain before it is gone from the log's folder. May run in a thread.
        """
        waiting = list(log.awaiting_archive)
        if not waiting:
            return 0
        target = self.folder_of(log)
        self._make_folder(target)
        for path in waiting:
            name = path.rpartition("/")[2].removesuffix(ARCHIVE_SUFFIX)
            try:
                self._take(path, f"{target}/{name}")
            except FileNotFoundError:
                if not log.deleted:
                    raise
            log.awaiting_archive.remove(path)
        self._files.sync_directory(log.directory)
        return len(waiting)

    def _take(self, path: str, target: str) -> None:
        if self._files.exists(target) and self._files.size(target) >= self._files.size(path):
            # Another broker led before and archived from the same offset on, as far or farther.
            self._files.remove(path)
        else:
            _move(self._files, path, target)

    def _make_folder(self, path: str) -> None:
        """Make a folder so that a crash does not take it away with what is in it."""
        missing = []
        while path and not self._files.exists(path):
            missing.append(path)
            path = path.rpartition("/")[0]
        if missing:
            self._files.make_directory(missing[0])
        for made in missing:
            self._files.sync_directory(made.rpartition("/")[0] or "/")


def _move(files: Files, source: str, target: str) -> None:
    """Move a file, to another file system if it must be. It is never at neither place, not even after a crash."""
    file = files.open(source)
    try:
        file.sync()
        try:
            files.rename(source, target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            temporary = target + TEMPORARY_SUFFIX
            copy = files.open(temporary, create=True)
            try:
                copy.truncate(0)
                for position in range(0, file.size(), COPY_BYTES):
                    copy.write([file.read(COPY_BYTES, position)], position)
                copy.sync()
            finally:
                copy.close()
            files.rename(temporary, target)
            files.sync_directory(target.rpartition("/")[0])
            files.remove(source)
    finally:
        file.close()
    files.sync_directory(target.rpartition("/")[0])


class ArchivedSegment(NamedTuple):
    """A file of an archive."""

    first_offset: Offset
    path: str
    size: int


class Restored(NamedTuple):
    """What a partition was made of again."""

    start_offset: Offset
    end_offset: Offset
    segments: int
    bytes: int
    # Offsets that are in no file, as [from, to).
    missing: tuple[tuple[Offset, Offset], ...]


def archived_segments(files: Files, folder: str) -> list[ArchivedSegment]:
    """What an archive holds of a partition, oldest first."""
    found = []
    for entry in sorted(files.list(folder)):
        digits = entry.name.removesuffix(LOG_SUFFIX)
        if entry.name.endswith(LOG_SUFFIX) and digits.isdigit() and file_name(int(digits), LOG_SUFFIX) == entry.name:
            path = f"{folder}/{entry.name}"
            found.append(ArchivedSegment(Offset(int(digits)), path, files.size(path)))
    return found


def restore(
    files: Files,
    clock: Clock,
    archived: list[ArchivedSegment],
    partition: TopicPartition,
    directory: str,
    *,
    progress: Callable[[int], None] = lambda _: None,
) -> Restored:
    """Make the folder of a read-only partition of archived segments, none of which may be damaged.

    Offsets, timestamps and leader epochs stay as they were. Raises OSError and CorruptLog; then the folder is of
    no use.
    """
    first = archived[0].first_offset if archived else Offset(0)
    base = next((Offset(header.base_offset) for header, _ in _batches(files, archived[:1])), first)
    log = create_log(partition, directory, OpenFiles(files), clock, LogConfig(), start_offset=base)
    missing = []
    taken_bytes = 0
    for segment in archived:
        if log.end_offset < segment.first_offset and log.end_offset > base:
            missing.append((log.end_offset, segment.first_offset))
        for header, batch in _batches(files, [segment]):
            # Brokers that led one after the other may have archived the same batches.
            if header.base_offset >= log.end_offset:
                log.append_replicated(batch)
                taken_bytes += len(batch)
            progress(len(batch))
    log.close()
    write_read_only(files, directory, first)
    return Restored(first, log.end_offset, len(archived), taken_bytes, tuple(missing))


def _batches(files: Files, archived: list[ArchivedSegment]) -> Iterator[tuple[BatchHeader, memoryview]]:
    for segment in archived:
        file = files.open(segment.path)
        end = 0
        try:
            for position, header, batch in valid_batches(file, segment.size, Offset(0), EVERYWHERE):
                end = position + len(batch)
                yield header, batch
        finally:
            file.close()
        if end != segment.size:
            raise CorruptLog(f"{segment.path} has no valid batch at {end}")
