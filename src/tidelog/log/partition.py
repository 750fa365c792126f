"""The log of one partition: segments, leader epochs and producers, kept in step with each other.

Used by the single-threaded loop of a broker. How it grows is `log/log_end.py`; here it is read, made durable and cut.
Reading returns a slice of a file and never copies. Only `flush` may run in another thread. Opening an existing log is
`log/recovery.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.log import retention, time_lookup
from tidelog.log.checkpoints import write_topic_id
from tidelog.log.config import LogConfig
from tidelog.log.cut_preparation import CutTask
from tidelog.log.epochs import EpochEnd
from tidelog.log.errors import LogFailed, OffsetOutOfRange
from tidelog.log.file_slice import FileSlice
from tidelog.log.log_end import ASK_EVERY_TIME, LogEnd
from tidelog.log.producer_replay import KnownProducers, load_producers
from tidelog.log.producers import Producers
from tidelog.log.segment import Segment
from tidelog.log.time_index import TimestampedOffset
from tidelog.log.transaction_index import AbortedTransaction
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import NO_EPOCH, LeaderEpoch, Offset, TopicId


class PartitionLog(LogEnd):
    """One partition's batches, from `start_offset` to `end_offset`."""

    __slots__ = ()

    # --- reading ------------------------------------------------------------------------------------------------------

    def read(self, offset: Offset, max_bytes: int, up_to: Offset, at_least_one_batch: bool = True) -> FileSlice | None:
        """Batches from the one that holds `offset` on, of records before `up_to`; None when there are none yet.

        At most `max_bytes`, unless `at_least_one_batch` and the first batch alone is larger.
        """
        if offset < self.start_offset or offset > self.end_offset:
            raise OffsetOutOfRange(offset, self.start_offset, self.end_offset)
        if offset >= up_to:
            return None
        segment = self._active
        if offset >= segment.base_offset:
            if up_to >= self.end_offset:
                return segment.read(offset, max_bytes, segment.size, self.end_offset, at_least_one_batch)
            return segment.read(offset, max_bytes, segment.position_of(up_to), up_to, at_least_one_batch)
        return self._segments.read(offset, max_bytes, up_to, self.end_offset, at_least_one_batch)

    @property
    def segments(self) -> list[Segment]:
        """All segments, oldest first; the last one is the active one."""
        return self._segments.copy()

    @property
    def active_segment(self) -> Segment:
        return self._active

    @property
    def awaiting_archive(self) -> list[str]:
        """Files of segments that expired and wait to be moved; whoever moves one takes it from the list."""
        return self._segments.awaiting_archive

    @property
    def size_bytes(self) -> int:
        return self._segments.size_bytes

    def offset_for_timestamp(self, timestamp: int) -> TimestampedOffset | None:
        """The first record that is not earlier than `timestamp`."""
        return time_lookup.first_not_before(self._segments.copy(), timestamp, self.start_offset)

    def max_timestamp_offset(self) -> TimestampedOffset | None:
        """The record with the largest timestamp."""
        return time_lookup.largest(self._segments.copy(), self.start_offset)

    def end_offset_for_epoch(self, epoch: LeaderEpoch) -> EpochEnd:
        """Where a leader epoch ended in this log (KIP-101)."""
        return self.epochs.end_offset_for(epoch, self.end_offset)

    def latest_epoch(self) -> LeaderEpoch | None:
        return None if self.epochs.latest == NO_EPOCH else self.epochs.latest

    def last_stable_offset(self, high_watermark: Offset) -> Offset:
        """Up to where a reader of committed records may read."""
        unstable = self.producers.first_unstable_offset()
        if unstable is None:
            return high_watermark
        # Records of an open transaction may have been deleted by command.
        return max(min(unstable, high_watermark), self.start_offset)

    def aborted_transactions(self, start: Offset, up_to: Offset) -> list[AbortedTransaction]:
        """The aborted transactions with records in [start, up_to)."""
        found: list[AbortedTransaction] = []
        for number in self._segments.numbers_from(start):
            more, complete = self._segments[number].transaction_index.overlapping(start, up_to)
            found += more
            if complete:
                return found
        return found + self._aborted.overlapping(start, up_to)

    # --- making durable -----------------------------------------------------------------------------------------------

    @property
    def recovery_point(self) -> Offset:
        """Batches below it are on the disk for certain."""
        return self._durability.recovery_point

    @property
    def checkpoint_recovery_point(self) -> Offset:
        """What a checkpoint may say of it, so that a start after a crash checks all that may be torn."""
        return self._durability.checkpoint_offset(self.end_offset)

    @property
    def unflushed_records(self) -> int:
        return self.end_offset - self._durability.recovery_point

    def flush_is_due(self, now_ms: int) -> bool:
        """Whether flush.messages or flush.ms asks for a flush."""
        unflushed = self.unflushed_records
        waited_ms = now_ms - self._durability.flushed_ms
        return unflushed > 0 and (unflushed >= self.config.flush_messages or waited_ms >= self.config.flush_ms)

    @property
    def has_unflushed_segments(self) -> bool:
        """Whether a sealed segment waits for `flush_sealed`."""
        return self._durability.is_segment_waiting()

    def flush_sealed(self) -> None:
        """The same for sealed segments alone, so that a start after a crash need not check them. Safe in a thread."""
        self._raise_if_failed()
        try:
            self._durability.sync_sealed(self.epochs, self.snapshots)
        except OSError as error:
            self._flush_failed(error)

    def lower_recovery_point(self, offset: Offset) -> None:
        """Say that what is at `offset` and after it may not be on the disk: before a truncation."""
        self._durability.lower(offset)

    def folder_was_made(self) -> None:
        """The folder is new: its name is to be synced with the first flush."""
        self._durability.folder_is_new = True

    def close(self) -> None:
        """Write down all that a later start wants to find, durably. Raises LogFailed; then the stop was not clean."""
        self.write_staged()
        self._raise_if_failed()
        if self._is_as_closed:
            self.release_files()
            return
        try:
            self._aborted.note(self._active.transaction_index)
            self._active.note_largest_timestamp()
            self._active.write_indexes()
            self.snapshots.take(self.end_offset, self.producers)
            self._durability.has_new_names = True
            self.flush()
            if self.epochs.dirty:
                self.epochs.write(self.open_files.files, self.directory)
            self._active.sync()
            self.snapshots.sync(self.end_offset)
        except OSError as error:
            raise LogFailed(f"cannot close {self.partition}", error) from error
        finally:
            self.release_files()

    def release_files(self) -> None:
        """Let go of open files without writing anything."""
        self._segments.close()

    # --- cutting ------------------------------------------------------------------------------------------------------

    def cut_task(self, offset: Offset) -> CutTask | None:
        """What `truncate_to(offset)` would have to read for long, to be read before it; None when it is nothing."""
        if not self.start_offset < offset < self.end_offset:
            return None
        segments = self._segments.copy()[: self._segments.numbers_from(offset).start + 1]
        snapshots = [known for known in self.snapshots.offsets if known <= segments[-1].base_offset]
        position = segments[-1].offset_index.lookup(offset)
        bases = [Offset(segment.base_offset) for segment in segments]
        return CutTask(self.open_files.files, self.directory, bases, position, snapshots) if position else None

    def truncate_to(self, offset: Offset, known: KnownProducers | None = None) -> None:
        """Drop the batch that holds `offset` and everything after it, durably. Raises LogFailed.

        The recovery point on disk must not be after `offset` when this is called: use `LogDirectories.truncate`.
        `known` is what a `cut_task` for the same offset found in the same log.
        """
        if offset >= self.end_offset:
            # An epoch that began here without a record may be one that never was.
            self.epochs.truncate_from_end(self.end_offset)
            return
        if offset <= self.start_offset:
            self.truncate_fully_and_start_at(offset)
            return
        self._begin_truncation(offset)
        try:
            keep = self._segments.numbers_from(offset).start + 1
            if self._segments.remove_from(keep, self.config.file_delete_delay_ms):
                self.open_files.files.sync_directory(self.directory)
            self._active = self._segments.active
            self._active.truncate_to(offset)
            self.end_offset = self.next_offset = self._active.next_offset()
            # The start may lie within the batch that is gone as a whole.
            self.start_offset = min(self.start_offset, self.end_offset)
            self.lower_recovery_point(self.end_offset)
            self.epochs.truncate_from_end(self.end_offset)
            self._reload_producers(known)
        except OSError as error:
            self._failure = LogFailed(f"cannot truncate {self.partition}", error)
            raise self._failure from error

    def truncate_fully_and_start_at(self, offset: Offset) -> None:
        """Drop everything; the next record gets `offset`. Raises LogFailed."""
        self._begin_truncation(offset)
        try:
            self._active = self._segments.start_again(offset, self.config, self.config.file_delete_delay_ms)
            self._durability.restart_at(offset)
            self.open_files.files.sync_directory(self.directory)
            self.start_offset = self.end_offset = self.next_offset = offset
            self.epochs.clear()
            for known in self.snapshots.offsets:
                self.snapshots.remove(known)
            self.producers = Producers()
        except OSError as error:
            self._failure = LogFailed(f"cannot truncate {self.partition}", error)
            raise self._failure from error

    def _begin_truncation(self, offset: Offset) -> None:
        self._is_as_closed = False
        self.write_staged()
        self._aborted.truncate_to(offset)
        self._raise_if_failed()
        self._segments.drop_swap()
        self.lower_recovery_point(offset)
        self._durability.has_new_names = True
        self._roll_timestamp = ASK_EVERY_TIME

    def _reload_producers(self, known: KnownProducers | None) -> None:
        self.snapshots.remove_after(self.end_offset)
        self.producers = load_producers(self._segments.copy(), self.snapshots, self.end_offset, known)

    def advance_start_offset(self, offset: Offset) -> None:
        """Records before `offset` are gone for readers; their segments go with the next `delete_old_segments`."""
        if offset > self.end_offset:
            raise OffsetOutOfRange(offset, self.start_offset, self.end_offset)
        self.start_offset = max(self.start_offset, offset)

    def delete_old_segments(self, now_ms: int, high_watermark: Offset, *, archive: bool = True) -> int:
        """Delete, or archive, segments that retention or the start offset lets go, oldest first; returns how many."""
        if self.is_read_only:
            return 0
        self._raise_if_failed()
        count = retention.deletable_count(self._segments.copy(), self.config, now_ms, self.start_offset, high_watermark)
        if count == len(self._segments):
            if self.end_offset > high_watermark or not self._active.size:
                count -= 1
            else:
                self.roll()
        if not count:
            return 0
        try:
            self._delete_first(count, archive=archive and self.config.archives)
        except OSError as error:
            raise LogFailed(f"cannot delete old segments of {self.partition}", error) from error
        return count

    def _delete_first(self, count: int, *, archive: bool) -> None:
        self._is_as_closed = False
        delay_ms = self.config.file_delete_delay_ms
        for _ in range(count):
            wanted = archive and self._segments[1].base_offset > self.start_offset
            removed = self._segments.remove_first(delay_ms, self.start_offset if wanted else None)
            self._segments.remove_later(self.snapshots.rename_to_deleted(removed.base_offset), delay_ms)
            self.start_offset = max(self.start_offset, self._segments[0].base_offset)
        # Epochs go with segments, not with the start offset: a crash may lose that, and then they are needed again.
        self.epochs.truncate_from_start(self._segments[0].base_offset)
        self._durability.has_new_names = True

    def begin_swap(self, old: Sequence[Segment]) -> bool:
        """Announce what compaction made of these segments; sync the directory, then `finish_swap`. Raises OSError."""
        self._is_as_closed = False
        return self._segments.begin_swap(old)

    def finish_swap(self) -> None:
        """Put what was announced in the place of the old segments, unless they changed since. Raises OSError."""
        delay_ms = self.config.file_delete_delay_ms
        for gone in self._segments.finish_swap(self.config, delay_ms)[1:]:
            self._segments.remove_later(self.snapshots.rename_to_deleted(gone.base_offset), delay_ms)
        self._durability.has_new_names = True

    def reap(self, now_ms: int) -> int:
        """Remove files that were renamed long enough ago; returns how many. Raises OSError."""
        return self._segments.reap(now_ms)

    # --- settings -----------------------------------------------------------------------------------------------------

    def configure(self, config: LogConfig) -> None:
        """Take new settings; they count from the next batch on."""
        self.config = config
        self._active.configure(config)
        self._roll_timestamp = ASK_EVERY_TIME

    def assign_topic_id(self, topic_id: TopicId) -> None:
        """Note the topic's id, in `partition.metadata` too."""
        if self.topic_id == topic_id:
            return
        if self.topic_id is not None:
            raise ProtocolError(
                ErrorCode.INCONSISTENT_TOPIC_ID, f"{self.partition} belongs to topic {self.topic_id}, not {topic_id}"
            )
        try:
            write_topic_id(self.open_files.files, self.directory, topic_id, sync=False)
        except OSError as error:
            raise LogFailed(f"cannot note the topic id of {self.partition}", error) from error
        self._durability.has_new_names = True
        self._is_as_closed = False
        self.topic_id = topic_id
