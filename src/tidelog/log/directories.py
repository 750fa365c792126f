"""The log directories of a broker: which partitions they hold, their checkpoints, their clean or unclean stop.

Built by the broker at start. Each directory is loaded in a thread of its own; one that fails goes offline with its
reason while the others go on. Partitions are found, created, deleted and closed here; what happens inside one is
`log/partition.py`.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final
from uuid import UUID, uuid4

from tidelog.env.clock import Clock
from tidelog.env.files import File, Files
from tidelog.log.checkpoints import (
    HIGH_WATERMARK_FILE,
    LOG_START_FILE,
    RECOVERY_POINT_FILE,
    DirectoryOwner,
    read_offsets,
    read_owner,
    replace_file,
    write_offsets,
    write_owner,
)
from tidelog.log.config import LogConfig
from tidelog.log.errors import CorruptLog, LogFailed
from tidelog.log.open_files import OPEN_FILES_MAX, OpenFiles
from tidelog.log.partition import PartitionLog
from tidelog.log.recovery import create_log, open_log
from tidelog.model.ids import NodeId, Offset, PartitionIndex, TopicId, TopicName, TopicPartition

CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"
CLEANER_OFFSET_FILE: Final = "cleaner-offset-checkpoint"
LOCK_FILE: Final = ".lock"
DELETE_SUFFIX: Final = "-delete"
METADATA_TOPIC: Final = "__cluster_metadata"
FILE_NAME_CHARACTERS_MAX: Final = 255

_CLEAN_SHUTDOWN: Final = b'{"version":0,"brokerEpoch":-1}'
_PARTITION_FOLDER: Final = re.compile(r"([a-zA-Z0-9._-]+)-(\d+)")

ConfigOf = Callable[[TopicPartition], LogConfig]


class WrongOwner(Exception):
    """A directory that belongs to another cluster or node."""


class DirectoryInUse(Exception):
    """A directory that another broker works in."""


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


class LogDirectory:
    """One directory with the partitions in it."""

    __slots__ = ("_lock", "broken", "clock", "failure", "files", "logs", "open_files", "owner", "path", "was_clean")

    def __init__(self, path: str, files: Files, clock: Clock, open_files_max: int) -> None:
        self.path = path
        self.files = files
        self.clock = clock
        self.open_files = OpenFiles(files, open_files_max)
        self.logs: dict[TopicPartition, PartitionLog] = {}
        # Partitions that could not be opened although the disk works, and why.
        self.broken: dict[TopicPartition, CorruptLog] = {}
        self.owner: DirectoryOwner | None = None
        self.was_clean = False
        # Why the directory is offline, if it is.
        self.failure: Exception | None = None
        self._lock: File | None = None

    @property
    def is_online(self) -> bool:
        return self.failure is None

    def load(self, config_of: ConfigOf, high_watermarks: dict[TopicPartition, Offset]) -> None:
        """Open every partition in the directory. Raises OSError or CorruptLog when the directory itself is unusable."""
        files, path = self.files, self.path
        files.make_directory(path)
        self._lock = files.lock(f"{path}/{LOCK_FILE}")
        self.owner = read_owner(files, path)
        self.was_clean = files.exists(f"{path}/{CLEAN_SHUTDOWN_FILE}")
        if self.was_clean:
            # Before anything changes: were it found after a crash, a torn log would be trusted.
            files.remove(f"{path}/{CLEAN_SHUTDOWN_FILE}")
            files.sync_directory(path)
        recovery_points = self._checkpoint(RECOVERY_POINT_FILE)
        starts = self._checkpoint(LOG_START_FILE)
        compacted = self._checkpoint(CLEANER_OFFSET_FILE)
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
        """Make the folder of a new partition. Raises OSError."""
        log = create_log(partition, f"{self.path}/{partition}", self.open_files, self.clock, config, topic_id=topic_id)
        self.logs[partition] = log
        return log

    def delete(self, partition: TopicPartition) -> str:
        """Rename the folder of a partition, so that it is gone at once; returns the new path. Raises OSError."""
        log = self.logs.pop(partition)
        doomed = f"{self.path}/{delete_folder_name(partition, uuid4())}"
        self.files.rename(log.directory, doomed)
        self.files.sync_directory(self.path)
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

    def checkpoint(self, high_watermarks: Mapping[TopicPartition, Offset]) -> None:
        """Write down how far each partition is flushed, replicated and where it starts. Raises OSError."""
        logs = self.logs
        write_offsets(self.files, self.path, RECOVERY_POINT_FILE, {tp: log.recovery_point for tp, log in logs.items()})
        starts = {
            partition: log.start_offset
            for partition, log in logs.items()
            if log.start_offset > log.segments[0].base_offset
        }
        write_offsets(self.files, self.path, LOG_START_FILE, starts)
        here = {partition: offset for partition, offset in high_watermarks.items() if partition in logs}
        write_offsets(self.files, self.path, HIGH_WATERMARK_FILE, here)

    def close(self, high_watermarks: Mapping[TopicPartition, Offset]) -> None:
        """Close every partition and say that the stop was clean. Raises OSError or LogFailed; then it was not."""
        try:
            if self.is_online:
                for log in self.logs.values():
                    log.close()
                self.checkpoint(high_watermarks)
                replace_file(self.files, self.path, CLEAN_SHUTDOWN_FILE, _CLEAN_SHUTDOWN)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Let go of files and lock without writing anything."""
        for log in self.logs.values():
            log.release_files()
        if self._lock is not None:
            self._lock.close()
            self._lock = None


class LogDirectories:
    """All partitions on this broker, wherever they are."""

    __slots__ = ("_clock", "_doomed", "directories", "high_watermarks")

    def __init__(
        self, paths: Iterable[str], files: Files, clock: Clock, *, open_files_max: int = OPEN_FILES_MAX
    ) -> None:
        unique = list(dict.fromkeys(path.rstrip("/") or "/" for path in paths))
        assert unique, "a broker needs a log directory"
        self._clock = clock
        self.directories = [LogDirectory(path, files, clock, max(open_files_max // len(unique), 1)) for path in unique]
        # As of the last checkpoint, until the broker knows better.
        self.high_watermarks: dict[TopicPartition, Offset] = {}
        self._doomed: list[tuple[int, LogDirectory, str]] = []

    def load(self, config_of: ConfigOf) -> None:
        """Open all partitions of all directories; a directory that cannot be used is offline afterwards.

        `config_of` is called in threads. Raises DirectoryInUse.
        """
        with ThreadPoolExecutor(len(self.directories), thread_name_prefix="load-logs") as pool:
            found: list[dict[TopicPartition, Offset]] = [{} for _ in self.directories]
            jobs = [
                pool.submit(directory.load, config_of, offsets)
                for directory, offsets in zip(self.directories, found, strict=True)
            ]
            for directory, offsets, job in zip(self.directories, found, jobs, strict=True):
                error = job.exception()
                if isinstance(error, BlockingIOError):
                    self.abandon()
                    raise DirectoryInUse(f"{directory.path} is in use: {error.strerror}") from error
                if isinstance(error, OSError | CorruptLog):
                    self.take_offline(directory, error)
                elif error is not None:
                    raise error
                else:
                    self.high_watermarks.update(offsets)

    def claim(self, cluster_id: str, node_id: NodeId) -> None:
        """Mark new directories as this node's. Raises WrongOwner for another's; one that cannot be written goes offline."""
        for directory in self.online():
            owner = directory.owner
            if owner is None:
                directory.owner = owner = DirectoryOwner(cluster_id, node_id, uuid4())
                try:
                    write_owner(directory.files, directory.path, owner)
                except OSError as error:
                    self.take_offline(directory, error)
            elif (owner.cluster_id, owner.node_id) != (cluster_id, node_id):
                raise WrongOwner(
                    f"{directory.path} belongs to node {owner.node_id} of cluster {owner.cluster_id}, "
                    f"not to node {node_id} of cluster {cluster_id}"
                )

    def online(self) -> list[LogDirectory]:
        return [directory for directory in self.directories if directory.is_online]

    def offline(self) -> list[LogDirectory]:
        return [directory for directory in self.directories if not directory.is_online]

    def get(self, partition: TopicPartition) -> PartitionLog | None:
        """The log of a partition, None when it is not here or its directory is offline."""
        directory = self.directory_of(partition)
        return directory.logs[partition] if directory is not None and directory.is_online else None

    def directory_of(self, partition: TopicPartition) -> LogDirectory | None:
        for directory in self.directories:
            if partition in directory.logs:
                return directory
        return None

    def partitions(self) -> dict[TopicPartition, PartitionLog]:
        """All logs in directories that are online."""
        return {partition: log for directory in self.online() for partition, log in directory.logs.items()}

    def create(self, partition: TopicPartition, config: LogConfig, topic_id: TopicId | None = None) -> PartitionLog:
        """Make a new partition where the fewest are. Raises LogFailed, and takes a directory offline that refuses."""
        assert self.directory_of(partition) is None, f"{partition} is here already"
        directory = min(self.online(), key=lambda one: len(one.logs), default=None)
        if directory is None:
            raise LogFailed(f"cannot create {partition}", OSError("all log directories are offline"))
        try:
            return directory.create(partition, config, topic_id)
        except OSError as error:
            self.take_offline(directory, error)
            raise LogFailed(f"cannot create {partition} in {directory.path}", error) from error

    def delete(self, partition: TopicPartition) -> None:
        """Take a partition away; its files go with a later `reap`. Raises LogFailed."""
        directory = self.directory_of(partition)
        assert directory is not None, f"{partition} is not here"
        delay = directory.logs[partition].config.file_delete_delay_ms
        try:
            doomed = directory.delete(partition)
        except OSError as error:
            self.take_offline(directory, error)
            raise LogFailed(f"cannot delete {partition} in {directory.path}", error) from error
        self.high_watermarks.pop(partition, None)
        self._doomed.append((self._clock.now_ms() + delay, directory, doomed))

    def reap(self, now_ms: int) -> None:
        """Remove files and folders that were renamed long enough ago. May run in a thread."""
        due = [doomed for doomed in self._doomed if doomed[0] <= now_ms]
        self._doomed = [doomed for doomed in self._doomed if doomed[0] > now_ms]
        for _, directory, path in due:
            with self._guard(directory):
                directory.remove_folder(path)
        for directory in self.online():
            with self._guard(directory):
                for log in list(directory.logs.values()):
                    log.reap(now_ms)

    def checkpoint(self) -> None:
        """Write the checkpoints of every directory. May run in a thread."""
        for directory in self.online():
            with self._guard(directory):
                directory.checkpoint(self.high_watermarks)

    def close(self) -> None:
        """Stop cleanly, directory by directory; one that fails is recovered at the next start."""
        for directory in self.directories:
            with self._guard(directory):
                directory.close(self.high_watermarks)

    def abandon(self) -> None:
        """Stop without writing anything, as a crash would."""
        for directory in self.directories:
            directory.abandon()

    def take_offline(self, directory: LogDirectory, reason: Exception) -> None:
        """Use a directory no more; the first reason is kept."""
        if directory.failure is None:
            directory.failure = reason

    @contextlib.contextmanager
    def _guard(self, directory: LogDirectory) -> Iterator[None]:
        try:
            yield
        except (OSError, LogFailed) as error:
            self.take_offline(directory, error)
