"""One log directory of a broker: the partitions in it, its checkpoints, its lock, its clean or unclean stop.

`log/directories.py` keeps several of them. What the disk refuses is raised here as OSError and judged there.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final
from uuid import UUID, uuid4

from tidelog.env.clock import Clock
from tidelog.env.files import File, Files, read_all
from tidelog.log.archive import RESTORED_SUFFIX
from tidelog.log.checkpoints import (
    CLEANER_OFFSET_FILE,
    HIGH_WATERMARK_FILE,
    LOG_START_FILE,
    RECOVERY_POINT_FILE,
    DirectoryOwner,
    read_offsets,
    read_owner,
    replace_file,
    write_offsets,
)
from tidelog.log.config import LogConfig
from tidelog.log.errors import CorruptLog
from tidelog.log.open_files import OpenFiles
from tidelog.log.partition import PartitionLog
from tidelog.log.recovery import create_log, open_log
from tidelog.model.ids import Offset, PartitionIndex, TopicId, TopicName, TopicPartition

CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"
LOCK_FILE: Final = ".lock"
DELETE_SUFFIX: Final = "-delete"
METADATA_TOPIC: Final = "__cluster_metadata"
FILE_NAME_CHARACTERS_MAX: Final = 255

_CLEAN_SHUTDOWN: Final = '{"version":0,"brokerEpoch":%d}'
_BROKER_EPOCH: Final = re.compile(rb'"brokerEpoch"\s*:\s*(-?\d+)')
NO_BROKER_EPOCH: Final = -1
_PARTITION_FOLDER: Final = re.compile(r"([a-zA-Z0-9._-]+)-(\d+)")

ConfigOf = Callable[[TopicPartition], LogConfig]
CloseEach = Callable[[Sequence[PartitionLog]], None]


def partition_of(folder: str) -> TopicPartition | None:
    """The partition whose folder this is; None for any other folder, such as one that is being deleted."""
    match = _PARTITION_FOLDER.fullmatch(folder)
    if match is None:
        return None
    return TopicPartition(TopicName(match[1]), PartitionIndex(int(match[2])))


def delete_folder_name(partition: TopicPartition, unique: UUID) -> str:
    """What a partition's folder is called while its files wait to be removed; long topic names are cut."""
    suffix = f"-{partition.partition}.{unique.hex}{DELETE_SUFFIX}"
    return partition.topic[: FILE_NAME_CHARACTERS_MAX - len(suffix)] + suffix


def close_one_by_one(logs: Sequence[PartitionLog]) -> None:
    for log in logs:
        log.close()


class LogDirectory:
    """One directory with the partitions in it."""

    __slots__ = (
        "_lock",
        "broken",
        "clock",
        "compacted",
        "failure",
        "files",
        "is_short_for_followers",
        "is_short_of_room",
        "logs",
        "open_files",
        "owner",
        "path",
        "stopped_in_epoch",
        "was_clean",
    )

    def __init__(self, path: str, files: Files, clock: Clock, open_files_max: int) -> None:
        self.path = path
        self.files = files
        self.clock = clock
        self.open_files = OpenFiles(files, open_files_max)
        self.logs: dict[TopicPartition, PartitionLog] = {}
        # Up to where each log is compacted.
        self.compacted: dict[TopicPartition, Offset] = {}
        # Partitions that could not be opened although the disk works, and why.
        self.broken: dict[TopicPartition, CorruptLog] = {}
        self.owner: DirectoryOwner | None = None
        self.was_clean = False
        # The broker's epoch when it stopped cleanly.
        self.stopped_in_epoch = NO_BROKER_EPOCH
        # Why the directory is offline, if it is.
        self.failure: Exception | None = None
        # Whether its file system is nearly full, so that its partitions take no more records.
        self.is_short_of_room = False
        # Whether it is so full that they take none from their leaders either.
        self.is_short_for_followers = False
        self._lock: File | None = None

    @property
    def is_online(self) -> bool:
        return self.failure is None

    def lock(self) -> None:
        """Make the directory this process's own. Raises BlockingIOError when it is another's."""
        if self._lock is None:
            self.files.make_directory(self.path)
            self._lock = self.files.lock(f"{self.path}/{LOCK_FILE}")

    def load(self, config_of: ConfigOf, high_watermarks: dict[TopicPartition, Offset]) -> None:
        """Open every partition in the directory. Raises OSError or CorruptLog when the directory itself is unusable."""
        files, path = self.files, self.path
        self.lock()
        self.owner = read_owner(files, path)
        self.was_clean = files.exists(f"{path}/{CLEAN_SHUTDOWN_FILE}")
        if self.was_clean:
            told = _BROKER_EPOCH.search(read_all(files, f"{path}/{CLEAN_SHUTDOWN_FILE}"))
            self.stopped_in_epoch = NO_BROKER_EPOCH if told is None else int(told[1])
            # Before anything changes: were it found after a crash, a torn log would be trusted.
            files.remove(f"{path}/{CLEAN_SHUTDOWN_FILE}")
            files.sync_directory(path)
        recovery_points = self._checkpoint(RECOVERY_POINT_FILE)
        starts = self._checkpoint(LOG_START_FILE)
        self.compacted = compacted = self._checkpoint(CLEANER_OFFSET_FILE)
        high_watermarks.update(self._checkpoint(HIGH_WATERMARK_FILE))
        for entry in sorted(files.list(path)):
            partition = partition_of(entry.name)
            if not entry.is_directory or (partition is not None and partition.topic == METADATA_TOPIC):
                continue
            if partition is None:
                if entry.name.endswith(DELETE_SUFFIX):
                    self._remove_folder(f"{path}/{entry.name}")
                continue
            try:
                self.logs[partition] = open_log(
                    partition,
                    f"{path}/{entry.name}",
                    self.open_files,
                    self.clock,
                    config_of(partition),
                    clean=self.was_clean,
                    recovery_point=recovery_points.get(partition, Offset(0)),
                    start_offset=starts.get(partition, Offset(0)),
                    compacted_up_to=compacted.get(partition, Offset(0)),
                )
            except CorruptLog as error:
                self.broken[partition] = error

    def _checkpoint(self, name: str) -> dict[TopicPartition, Offset]:
        try:
            return read_offsets(self.files, self.path, name)
        except CorruptLog:
            # Nothing of it can be trusted; without it more is checked, and nothing is lost.
            self.was_clean = False
            return {}

    def create(self, partition: TopicPartition, config: LogConfig, topic_id: TopicId | None) -> PartitionLog:
        """Make the folder of a new partition, or take the one that was restored for it. Raises OSError."""
        folder = f"{self.path}/{partition}"
        if self.has_restored(partition):
            self.files.rename(folder + RESTORED_SUFFIX, folder)
            log = open_log(partition, folder, self.open_files, self.clock, config, clean=True)
            log.folder_was_made()
            if topic_id is not None:
                log.assign_topic_id(topic_id)
        else:
            log = create_log(partition, folder, self.open_files, self.clock, config, topic_id=topic_id)
        self.logs[partition] = log
        return log

    def has_restored(self, partition: TopicPartition) -> bool:
        """Whether a folder was put here that is to become this partition."""
        return self.files.exists(f"{self.path}/{partition}{RESTORED_SUFFIX}")

    def delete(self, partition: TopicPartition) -> str:
        """Rename the folder of a partition, so that it is gone at once; returns the new path. Raises OSError.

        Not synced: a crash may bring the folder back, and its topic id says that it is nobody's.
        """
        log = self.logs.pop(partition)
        self.compacted.pop(partition, None)
        doomed = f"{self.path}/{delete_folder_name(partition, uuid4())}"
        log.deleted = True
        self.files.rename(log.directory, doomed)
        log.release_files()
        return doomed

    def remove_folder(self, path: str) -> None:
        """Remove a folder that `delete` renamed. Raises OSError."""
        self._remove_folder(path)

    def _remove_folder(self, path: str) -> None:
        for entry in self.files.list(path):
            with contextlib.suppress(FileNotFoundError):
                self.files.remove(f"{path}/{entry.name}")
        self.files.remove_directory(path)

    def note_compacted(self, partition: TopicPartition, up_to: Offset) -> None:
        """Write down how far a log is compacted: its offsets may have gaps up to there. Raises OSError."""
        self.compacted[partition] = up_to
        here = {known: offset for known, offset in dict(self.compacted).items() if known in self.logs}
        write_offsets(self.files, self.path, CLEANER_OFFSET_FILE, here)

    def checkpoint(self, high_watermarks: Mapping[TopicPartition, Offset]) -> None:
        """Write down how far each partition is flushed, replicated and where it starts. Raises OSError."""
        logs = dict(self.logs)  # This may run in a thread.
        recovery_points = {partition: log.checkpoint_recovery_point for partition, log in logs.items()}
        write_offsets(self.files, self.path, RECOVERY_POINT_FILE, recovery_points)
        starts = {
            partition: log.start_offset
            for partition, log in logs.items()
            if log.start_offset > log.segments[0].base_offset
        }
        write_offsets(self.files, self.path, LOG_START_FILE, starts)
        here = {partition: offset for partition, offset in dict(high_watermarks).items() if partition in logs}
        write_offsets(self.files, self.path, HIGH_WATERMARK_FILE, here)

    def close(
        self,
        high_watermarks: Mapping[TopicPartition, Offset],
        broker_epoch: int = NO_BROKER_EPOCH,
        close_each: CloseEach = close_one_by_one,
    ) -> None:
        """Close every partition and say that the stop was clean. Raises OSError or LogFailed; then it was not."""
        try:
            if self.is_online:
                close_each(tuple(self.logs.values()))
                self.checkpoint(high_watermarks)
                replace_file(self.files, self.path, CLEAN_SHUTDOWN_FILE, (_CLEAN_SHUTDOWN % broker_epoch).encode())
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Let go of files and lock without writing anything."""
        for log in self.logs.values():
            log.release_files()
        if self._lock is not None:
            self._lock.close()
            self._lock = None
