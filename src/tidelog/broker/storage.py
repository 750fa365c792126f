"""What the disk asks of the broker besides reads and writes: syncs in a thread, checkpoints, retention, and what to
do when it fails.

Replicas report when a sync is due or a write failed; the timers run here. A failed sync takes the log directory
offline and is never tried again as if it had not happened.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from typing import Final

from tidelog.broker.logs import log
from tidelog.log.archive import Archive
from tidelog.log.directories import LogDirectories
from tidelog.log.errors import LogFailed, LogWriteFailed, is_full_disk
from tidelog.log.partition import PartitionLog
from tidelog.replica.disk import Replica
from tidelog.replica.leader import PartitionLeader
from tidelog.replica.partitions import LedPartitions

REAP_SECONDS: Final = 1.0
SAY_FULL_SECONDS: Final = 5.0


class Storage:
    def __init__(
        self,
        directories: LogDirectories,
        loop: asyncio.AbstractEventLoop,
        executor: Executor,
        now_ms: Callable[[], int],
        *,
        checkpoint_seconds: float,
        retention_check_seconds: float,
        producer_expiration_ms: Callable[[], int],
        archive: Archive | None = None,
    ) -> None:
        self._directories = directories
        self._loop = loop
        self._executor = executor
        self._now_ms = now_ms
        self._checkpoint_seconds = checkpoint_seconds
        self._retention_check_seconds = retention_check_seconds
        self._producer_expiration_ms = producer_expiration_ms
        self._archive = archive
        self._is_archiving = False
        self._is_reaping = False
        self._said_full_at = -SAY_FULL_SECONDS
        self._partitions: LedPartitions | None = None
        self._syncing: set[Replica] = set()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._sync_timers: dict[Replica, asyncio.TimerHandle] = {}

    def start(self, partitions: LedPartitions) -> None:
        self._partitions = partitions
        self._every("checkpoint", self._checkpoint_seconds, self._checkpoint)
        self._every("retention", self._retention_check_seconds, self._delete_old_segments)
        self._every("reap", REAP_SECONDS, self._reap)
        self._archive_what_waits()  # Since before the last stop.

    def stop(self) -> None:
        for timer in (*self._timers.values(), *self._sync_timers.values()):
            timer.cancel()

    def _replicas(self) -> Iterable[Replica]:
        return () if self._partitions is None else self._partitions.replicas()

    # Syncs

    def sync_due(self, replica: Replica) -> None:
        """Sync the log in a thread. Writes of later turns wait for the sync after it: many producers share each one."""
        if replica in self._syncing:
            return
        self._syncing.add(replica)
        self._executor.submit(self._sync, replica)

    def sync_later(self, replica: Replica, delay_ms: int) -> None:
        """flush.ms: at most this long after the first write that is not on disk."""
        if replica not in self._sync_timers:
            self._sync_timers[replica] = self._loop.call_later(delay_ms / 1000, self._sync_by_time, replica)

    def _sync_by_time(self, replica: Replica) -> None:
        del self._sync_timers[replica]
        self.sync_due(replica)

    def _sync(self, replica: Replica) -> None:
        failure: LogFailed | None = None
        try:
            replica.log.flush()
        except LogFailed as error:
            failure = error
        except OSError as error:
            failure = LogFailed(f"sync of {replica} failed", error)
        self._loop.call_soon_threadsafe(self._synced, replica, failure)

    def _synced(self, replica: Replica, failure: LogFailed | None) -> None:
        self._syncing.discard(replica)
        if failure is not None:
            self.take_offline(replica, failure)
            return
        replica.synced()

    # Failures

    def write_failed(self, replica: Replica, failure: LogWriteFailed) -> None:
        if is_full_disk(failure):
            # Reads go on, and so do writes once there is room again.
            self._say_full(replica, failure)
        else:
            self.take_offline(replica, failure)

    def _say_full(self, replica: Replica, failure: LogFailed) -> None:
        """Not for every batch that a producer tries again."""
        now = self._loop.time()
        if now - self._said_full_at >= SAY_FULL_SECONDS:
            self._said_full_at = now
            log.error("the disk is full", partition=str(replica), reason=str(failure))

    def take_offline(self, replica: Replica, failure: LogFailed) -> None:
        """The disk under this partition failed: its directory is used no more. One that is merely full is used on."""
        if is_full_disk(failure):
            self._say_full(replica, failure)
            return
        directory = self._directories.directory_of(replica.log.partition)
        if directory is None:
            return  # The topic was deleted meanwhile.
        log.error("a log directory failed and is offline now", directory=directory.path, reason=str(failure))
        self._directories.take_offline(directory, failure)
        for other in tuple(self._replicas()):
            if other.log.partition in directory.logs:
                other.fail()

    # Periodic work

    def _every(self, name: str, seconds: float, work: Callable[[], None]) -> None:
        def run() -> None:
            try:
                work()
            except OSError as error:
                log.error(f"{name} failed", reason=str(error))
            self._timers[name] = self._loop.call_later(seconds, run)

        self._timers[name] = self._loop.call_later(seconds, run)

    def note_high_watermarks(self) -> None:
        self._directories.high_watermarks.update(
            {replica.log.partition: replica.high_watermark for replica in self._replicas()}
        )

    def _checkpoint(self) -> None:
        self.note_high_watermarks()
        now_ms = self._now_ms()
        expiration_ms = self._producer_expiration_ms()
        waiting = []
        for replica in self._replicas():
            replica.log.producers.expire(now_ms, expiration_ms)
            if replica.log.has_unflushed_segments:
                waiting.append(replica)
        self._executor.submit(self._sync_sealed_and_checkpoint, waiting)

    def _sync_sealed_and_checkpoint(self, waiting: list[Replica]) -> None:
        """Sync what is sealed, so that a start after a crash need not check it: it only checks what is not synced."""
        for replica in waiting:
            try:
                replica.log.flush_sealed()
            except LogFailed as failure:
                self._loop.call_soon_threadsafe(self.take_offline, replica, failure)
        self._directories.checkpoint()

    def _delete_old_segments(self) -> None:
        now_ms = self._now_ms()
        for replica in tuple(self._replicas()):
            try:
                # One archive of a partition is enough.
                is_leader = isinstance(replica, PartitionLeader)
                # What may still be committed does not expire before anybody could read it.
                deleted = replica.log.delete_old_segments(now_ms, replica.last_stable_offset, archive=is_leader)
            except LogFailed as failure:
                self.take_offline(replica, failure)
                continue
            if deleted:
                log.info("old segments deleted", partition=str(replica), start_offset=replica.log.start_offset)
        self._archive_what_waits()

    def _archive_what_waits(self) -> None:
        waiting = [replica.log for replica in self._replicas() if replica.log.awaiting_archive]
        if waiting and self._archive is not None and not self._is_archiving:
            self._is_archiving = True
            self._executor.submit(self._move_to_archive, self._archive, waiting)

    def _move_to_archive(self, archive: Archive, logs: list[PartitionLog]) -> None:
        for found in logs:
            try:
                moved = archive.take(found)
            except OSError as error:
                # The files wait where they are, and the next look at retention tries again.
                log.error("expired segments cannot be archived", partition=str(found.partition), reason=str(error))
            else:
                log.info("archived", partition=str(found.partition), segments=moved)
        self._is_archiving = False

    def _reap(self) -> None:
        """A file system may take long to remove a large file, or the many of a deleted topic."""
        if not self._is_reaping:
            self._is_reaping = True
            self._executor.submit(self._remove_files, self._now_ms())

    def _remove_files(self, now_ms: int) -> None:
        try:
            self._directories.reap(now_ms)
        finally:
            self._is_reaping = False
