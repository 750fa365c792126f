"""All log directories of a broker: each is loaded in a thread of its own, and one that fails goes offline alone.

Built by the broker at start. Partitions are found, created, truncated, deleted and closed here; what happens inside one
is `log/partition.py`, what happens in one directory `log/directory.py`.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Final
from uuid import uuid4

from tidelog.env.clock import Clock
from tidelog.env.files import Files
from tidelog.log.checkpoints import DirectoryOwner, write_owner
from tidelog.log.config import LogConfig
from tidelog.log.cut_preparation import CutTask
from tidelog.log.directory import NO_BROKER_EPOCH, ConfigOf, LogDirectory, close_one_by_one
from tidelog.log.errors import CorruptLog, LogFailed, is_full_disk
from tidelog.log.open_files import OPEN_FILES_MAX
from tidelog.log.partition import PartitionLog
from tidelog.log.producer_replay import KnownProducers
from tidelog.model.ids import NodeId, Offset, TopicId, TopicPartition

NOTHING_KNOWN: Final[Mapping[TopicPartition, KnownProducers]] = MappingProxyType({})


class WrongOwner(Exception):
    """A directory that belongs to another cluster or node."""


class DirectoryInUse(Exception):
    """A directory that another broker works in."""


class LogDirectories:
    """All partitions on this broker, wherever they are."""

    __slots__ = ("_clock", "_close_threads", "_doomed", "directories", "high_watermarks")

    def __init__(
        self,
        paths: Iterable[str],
        files: Files,
        clock: Clock,
        *,
        open_files_max: int = OPEN_FILES_MAX,
        close_threads: int = 1,
    ) -> None:
        unique = list(dict.fromkeys(path.rstrip("/") or "/" for path in paths))
        assert unique, "a broker needs a log directory"
        self._clock = clock
        self._close_threads = close_threads
        self.directories = [LogDirectory(path, files, clock, max(open_files_max // len(unique), 1)) for path in unique]
        # As of the last checkpoint, until the broker knows better.
        self.high_watermarks: dict[TopicPartition, Offset] = {}
        self._doomed: deque[tuple[int, LogDirectory, str]] = deque()

    def lock(self) -> None:
        """Take the directories before anything in them is touched; `load` does, too. Raises DirectoryInUse."""
        for directory in self.online():
            try:
                directory.lock()
            except BlockingIOError as error:
                self.abandon()
                raise DirectoryInUse(f"{directory.path} is in use by another broker") from error
            except OSError as error:
                self.take_offline(directory, error)

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
        """Mark new directories as this node's. Raises WrongOwner for another's; an unwritable one goes offline."""
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
        """Make a new partition where there is room and the fewest are. Raises LogFailed; a directory that refuses for
        another reason than room goes offline."""
        assert self.directory_of(partition) is None, f"{partition} is here already"
        directory = next((one for one in self.online() if one.has_restored(partition)), None)
        if directory is None:
            directory = min(self.online(), key=lambda one: (one.is_short_of_room, len(one.logs)), default=None)
        if directory is None:
            raise LogFailed(f"cannot create {partition}", OSError("all log directories are offline"))
        try:
            return directory.create(partition, config, topic_id)
        except OSError as error:
            if not is_full_disk(error):
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

    def cut_tasks(self, offsets: Mapping[TopicPartition, Offset]) -> dict[TopicPartition, CutTask]:
        """What may be read in a thread before `truncate` is called with these offsets."""
        tasks = {}
        for partition, offset in offsets.items():
            directory = self.directory_of(partition)
            task = None if directory is None else directory.logs[partition].cut_task(offset)
            if task is not None:
                tasks[partition] = task
        return tasks

    def truncate(
        self,
        offsets: Mapping[TopicPartition, Offset],
        known: Mapping[TopicPartition, KnownProducers] = NOTHING_KNOWN,
    ) -> None:
        """Drop in each partition what is at its offset and after it, durably. Raises LogFailed; may run in a thread.

        `known` is what the tasks found that were made for these cuts.
        """
        for directory in self.online():
            logs = [(log, offsets[partition]) for partition, log in directory.logs.items() if partition in offsets]
            if not logs:
                continue
            try:
                # First the recovery point: were it behind the cut after a crash, what is written next would be trusted.
                for log, offset in logs:
                    log.lower_recovery_point(offset)
                directory.checkpoint(self.high_watermarks)
                for log, offset in logs:
                    log.truncate_to(offset, known.get(log.partition))
            except (OSError, LogFailed) as error:
                self.take_offline(directory, error)
                raise error if isinstance(error, LogFailed) else LogFailed("cannot truncate", error) from error

    def start_over(self, partition: TopicPartition, offset: Offset) -> None:
        """Drop all of a partition, whose next record gets `offset`. Raises LogFailed; may run in a thread."""
        directory = self.directory_of(partition)
        assert directory is not None, f"{partition} is not here"
        log = directory.logs[partition]
        try:
            log.lower_recovery_point(min(log.start_offset, offset))
            directory.checkpoint(self.high_watermarks)
            log.truncate_fully_and_start_at(offset)
        except (OSError, LogFailed) as error:
            self.take_offline(directory, error)
            raise error if isinstance(error, LogFailed) else LogFailed("cannot start over", error) from error

    def reap(self, now_ms: int) -> None:
        """Remove files and folders that were renamed long enough ago. May run in a thread, in one at a time."""
        for _ in range(len(self._doomed)):
            due_ms, directory, path = self._doomed.popleft()
            if due_ms > now_ms:
                self._doomed.append((due_ms, directory, path))
                continue
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

    @property
    def stopped_in_epoch(self) -> int:
        """The broker's epoch when all of this was closed cleanly; -1 when a part was not."""
        epochs = {directory.stopped_in_epoch for directory in self.directories}
        return epochs.pop() if len(epochs) == 1 else NO_BROKER_EPOCH

    def close(self, broker_epoch: int = NO_BROKER_EPOCH) -> None:
        """Stop cleanly, directory by directory; one that fails is recovered at the next start."""
        for directory in self.directories:
            with self._guard(directory):
                directory.close(self.high_watermarks, broker_epoch, self._close_each)

    def _close_each(self, logs: Sequence[PartitionLog]) -> None:
        """Several at a time: a file system that waits for the disk takes other syncs along."""
        if self._close_threads == 1:
            close_one_by_one(logs)
            return
        with ThreadPoolExecutor(self._close_threads, thread_name_prefix="close-logs") as pool:
            for _ in pool.map(PartitionLog.close, logs):
                pass

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
            # Without room nothing is lost: what could not be written down now will be later.
            if not is_full_disk(error):
                self.take_offline(directory, error)
