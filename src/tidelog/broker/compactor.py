"""Compacts logs in threads of its own while the loop serves requests.

Reading, filtering and writing happen in a thread, on segments that no longer change. What the loop must decide, taking
a view of a log and renaming a few files, is handed to it and takes microseconds. A thread lets go of the interpreter
often, so that a request never waits long for it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from functools import partial
from threading import Event, Lock
from typing import Final, TypeVar

from tidelog.broker.logs import log
from tidelog.broker.storage import Storage
from tidelog.log.cleanable import LogView, dirty_span, view_of
from tidelog.log.compaction import CompactionPass
from tidelog.log.directories import LogDirectories
from tidelog.log.directory import LogDirectory
from tidelog.log.errors import CorruptLog, LogFailed, is_full_disk
from tidelog.model.ids import Offset, TopicPartition
from tidelog.replica.disk import Replica
from tidelog.replica.partitions import LedPartitions

T = TypeVar("T")

# How long a thread works before it lets others run, and how often it looks whether the broker stops.
WORK_SECONDS: Final = 0.001
STOP_CHECK_SECONDS: Final = 0.05
# No throttle waits longer than this at once, and no debt older than this is paid.
THROTTLE_SECONDS_MAX: Final = 1.0
FIRST_LOOK_SECONDS_MAX: Final = 1.0
NOTHING_COMPACTED: Final = Offset(0)


class Stopping(Exception):
    """The broker stops: a compaction under way is given up. Its files are removed or completed at the next start."""


class Pace:
    """Called for every batch that is read: yields, keeps to the bytes per second that are allowed, stops in time."""

    def __init__(self, bytes_per_second: float, stopping: Event) -> None:
        self._bytes_per_second = bytes_per_second
        self._stopping = stopping
        self._free_at = self._yielded_at = time.monotonic()

    def __call__(self, bytes_read: int) -> None:
        now = time.monotonic()
        self._free_at = max(self._free_at, now - THROTTLE_SECONDS_MAX) + bytes_read / self._bytes_per_second
        if now - self._yielded_at < WORK_SECONDS and self._free_at <= now:
            return
        if self._free_at > now:
            self._stopping.wait(min(self._free_at - now, THROTTLE_SECONDS_MAX))
        else:
            time.sleep(0)
        if self._stopping.is_set():
            raise Stopping
        self._yielded_at = time.monotonic()


class Compactor:
    def __init__(
        self,
        directories: LogDirectories,
        storage: Storage,
        loop: asyncio.AbstractEventLoop,
        now_ms: Callable[[], int],
        *,
        threads: int,
        backoff_seconds: float,
        keys_bytes_max: int,
        bytes_per_second: float,
    ) -> None:
        self._directories = directories
        self._storage = storage
        self._loop = loop
        self._now_ms = now_ms
        self._threads = threads
        self._backoff_seconds = backoff_seconds
        self._keys_bytes_max = keys_bytes_max // max(threads, 1)
        self._bytes_per_second = bytes_per_second / max(threads, 1)
        self._stopping = Event()
        self._checkpoint_lock = Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._partitions: LedPartitions | None = None
        self._busy: set[TopicPartition] = set()
        # Logs with bytes that cannot be understood, and the reason: not tried again before the next start.
        self.uncleanable: dict[TopicPartition, str] = {}
        self.passes = 0
        self.bytes_freed = 0

    def start(self, partitions: LedPartitions) -> None:
        if not self._threads:
            return
        self._partitions = partitions
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="tidelog-compact")
        self._timer = self._loop.call_later(min(self._backoff_seconds, FIRST_LOOK_SECONDS_MAX), self._look)

    def stop(self) -> None:
        """Give up what is under way and wait for the threads; may be called in the loop's thread."""
        self._stopping.set()
        if self._timer is not None:
            self._timer.cancel()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    # In the loop

    def _look(self) -> None:
        """Hand every log that got a new sealed segment since its last compaction to a thread."""
        assert self._pool is not None
        for replica in tuple(self._partitions.replicas() if self._partitions is not None else ()):
            partition = replica.log.partition
            if not replica.log.config.compacted or replica.failed or partition in self._busy:
                continue
            directory = self._directories.directory_of(partition)
            if directory is None or partition in self.uncleanable:
                continue
            if replica.log.active_segment.base_offset > directory.compacted.get(partition, NOTHING_COMPACTED):
                self._busy.add(partition)
                self._pool.submit(self._compact, replica, directory)
        self._timer = self._loop.call_later(self._backoff_seconds, self._look)

    def _done(self, replica: Replica, failure: Exception | None) -> None:
        partition = replica.log.partition
        self._busy.discard(partition)
        if failure is None or replica.log.deleted or replica.failed or isinstance(failure, FileNotFoundError):
            return  # A segment that retention takes away meanwhile is no failure.
        if isinstance(failure, CorruptLog):
            self.uncleanable[partition] = str(failure)
            log.error("a log cannot be compacted", partition=str(partition), reason=str(failure))
        elif is_full_disk(failure):
            log.error("no room to compact a log; it is tried again", partition=str(partition), reason=str(failure))
        elif isinstance(failure, OSError):
            self._storage.take_offline(replica, LogFailed(f"cannot compact {partition}", failure))
        elif isinstance(failure, LogFailed):
            self._storage.take_offline(replica, failure)
        else:
            self.uncleanable[partition] = repr(failure)
            log.error("compaction failed", partition=str(partition), reason=repr(failure))

    # In a thread

    def _compact(self, replica: Replica, directory: LogDirectory) -> None:
        failure: Exception | None = None
        try:
            if replica.log.has_unflushed_segments:
                replica.log.flush_sealed()
            while self._pass(replica, directory):
                pass
        except Stopping:
            return
        except Exception as error:
            failure = error
        self._loop.call_soon_threadsafe(self._done, replica, failure)

    def _pass(self, replica: Replica, directory: LogDirectory) -> bool:
        """Compact as far as the memory for keys reaches; False when there is nothing to do."""
        files = directory.files
        partition = replica.log.partition
        now_ms = self._now_ms()
        view = self._in_loop(lambda: self._view(replica, directory))
        span = dirty_span(view, files, now_ms)
        if span is None:
            return False
        compaction = CompactionPass(
            view,
            span,
            files,
            now_ms,
            keys_bytes_max=self._keys_bytes_max,
            pace=Pace(self._bytes_per_second, self._stopping),
        )
        freed = 0
        for group in compaction.groups():
            if not self._in_loop(partial(replica.log.begin_swap, group.old)):
                return False  # The log was cut, or its oldest segments went: the next look begins anew.
            files.sync_directory(view.directory)
            self._in_loop(replica.log.finish_swap)
            freed += group.bytes_before - group.bytes_after
        files.sync_directory(view.directory)
        with self._checkpoint_lock:
            directory.note_compacted(partition, compaction.end)
        self.passes += 1
        self.bytes_freed += freed
        log.info("compacted", partition=str(partition), up_to=compaction.end, freed_bytes=freed)
        return True

    def _view(self, replica: Replica, directory: LogDirectory) -> LogView:
        up_to = directory.compacted.get(replica.log.partition, NOTHING_COMPACTED)
        return view_of(replica.log, up_to, replica.last_stable_offset)

    def _in_loop(self, work: Callable[[], T]) -> T:
        """Have the loop's thread do something short, and wait for it."""
        future: Future[T] = Future()

        def run() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(work())
                except Exception as error:
                    future.set_exception(error)

        self._loop.call_soon_threadsafe(run)
        while not self._stopping.is_set():
            try:
                return future.result(STOP_CHECK_SECONDS)
            except CancelledError:
                break
            except TimeoutError:
                if future.done():
                    raise
        future.cancel()
        raise Stopping
