"""The log of one partition: segments, leader epochs and producers, kept in step with each other.

Used by the single-threaded loop of a broker. Appending is two steps, so that all batches of a loop turn share one
gathered write: `stage` gives each its offset, `write_staged` puts them into the file. Reading returns a slice of a
file and never copies. Only `flush` may run in another thread. Opening an existing log is `log/recovery.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidelog.env.clock import Clock
from tidelog.log import retention, time_lookup
from tidelog.log.aborted_notes import AbortedNotes
from tidelog.log.checkpoints import write_topic_id
from tidelog.log.config import LogConfig
from tidelog.log.durability import Durability
from tidelog.log.epochs import EpochEnd, LeaderEpochs
from tidelog.log.errors import LogFailed, LogFlushFailed, LogWriteFailed, OffsetOutOfRange
from tidelog.log.file_slice import FileSlice
from tidelog.log.log_state import LogState
from tidelog.log.markers import read_marker
from tidelog.log.offset_index import SKIP_WITHIN_SEGMENTS_MAX
from tidelog.log.open_files import OpenFiles
from tidelog.log.producer_replay import load_producers
from tidelog.log.producers import Producers
from tidelog.log.rolling import roll_is_due
from tidelog.log.segment import Segment
from tidelog.log.segments import Segments
from tidelog.log.time_index import TimestampedOffset
from tidelog.log.transaction_index import AbortedTransaction
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import NO_EPOCH, LeaderEpoch, Offset, TopicId, TopicPartition
from tidelog.wire.batch import (
    CONTROL_FLAG,
    LENGTH_OVERHEAD_BYTES,
    BatchHeader,
    RunBatch,
    read_header,
    stamp_run,
    write_base_offset_and_epoch,
)

# No timestamp is smaller: with this as the limit every batch takes the slow path, where the decision is made properly.
_ASK_EVERY_TIME: Final = -(2**63)


class PartitionLog:
    """One partition's batches, from `start_offset` to `end_offset`."""

    __slots__ = (
        "_aborted",
        "_active",
        "_durability",
        "_epochs_before",
        "_failure",
        "_is_as_closed",
        "_next_offset",
        "_roll_timestamp",
        "_segments",
        "_staged_count",
        "clock",
        "config",
        "deleted",
        "directory",
        "end_offset",
        "epochs",
        "is_read_only",
        "open_files",
        "partition",
        "producers",
        "snapshots",
        "start_offset",
        "topic_id",
    )

    def __init__(
        self,
        partition: TopicPartition,
        directory: str,
        open_files: OpenFiles,
        clock: Clock,
        config: LogConfig,
        state: LogState,
    ) -> None:
        self.partition = partition
        self.directory = directory
        self.open_files = open_files
        self.clock = clock
        self.config = config
        self._segments = Segments(state.segments, directory, open_files, clock)
        self._active = self._segments.active
        self.start_offset = state.start_offset
        self.end_offset = self._next_offset = state.end_offset
        files = open_files.files
        self._durability = Durability(self._segments, state.recovery_point, files, directory, clock.now_ms())
        self.epochs = state.epochs
        self.producers = state.producers
        self.snapshots = state.snapshots
        self.topic_id = state.topic_id
        # Whether its folder was renamed, to be removed.
        self.deleted = False
        self._staged_count = 0
        self._aborted = AbortedNotes()
        self._epochs_before: LeaderEpochs | None = None
        # A batch with a later timestamp may start a new segment.
        self._roll_timestamp = _ASK_EVERY_TIME
        self._failure: LogFailed | None = None
        self._is_as_closed = state.is_closed
        self.is_read_only = state.is_read_only

    def __repr__(self) -> str:
        return f"PartitionLog({self.directory!r}, {self.start_offset}..{self.end_offset})"

    # --- appending ----------------------------------------------------------------------------------------------------

    def stage(self, header: BatchHeader, view: memoryview, leader_epoch: LeaderEpoch) -> Offset:
        """Give a batch the next offset, write it and the epoch into `view`, and keep the view for `write_staged`.

        When a new segment is due, what is staged is written first; LogWriteFailed says from which offset on it is lost.
        """
        base = self._next_offset
        length = header.batch_length + LENGTH_OVERHEAD_BYTES
        last = base + header.last_offset_delta
        timestamp = header.max_timestamp
        segment = self._active
        if (
            segment.staged_size + length > segment.full_at
            or timestamp > self._roll_timestamp
            or last > segment.last_offset_max
        ):
            segment = self._make_room(length, last, timestamp)
        write_base_offset_and_epoch(view, base, leader_epoch)
        segment.stage(view, length, last, timestamp)
        if header.producer_id >= 0:
            self._stage_producer(header, view, base)
        if leader_epoch != self.epochs.latest:
            self._stage_epoch(leader_epoch, base)
        self._staged_count += 1
        self._next_offset = Offset(last + 1)
        return base

    @property
    def next_offset(self) -> Offset:
        """What the next batch that is staged will get."""
        return self._next_offset

    @property
    def takes_runs(self) -> bool:
        """Whether it is known until when the active segment is to be used."""
        return self._roll_timestamp != _ASK_EVERY_TIME

    def stage_run(self, batches: Sequence[RunBatch], latest: int, leader_epoch: LeaderEpoch) -> list[Offset]:
        """The same as `stage` for each of some batches, none later than `latest`; they have producer ids, or none has.

        Gives the base offset of each, and the one after the last. Gives nothing and does nothing when a new segment or
        epoch may begin within: so a run is written as a whole, or not at all.
        """
        segment = self._active
        count = len(batches)
        length = len(batches[0][0]) if count == 1 else sum([len(batch[0]) for batch in batches])
        base = self._next_offset
        if (
            segment.staged_size + length > segment.full_at
            or latest > self._roll_timestamp
            # A record has more than one byte, so there are fewer offsets than bytes.
            or base + length > segment.last_offset_max
            or leader_epoch != self.epochs.latest
        ):
            return []
        if count == 1:
            ((view, records_count, _, header),) = batches
            offsets = [base, Offset(base + records_count)]
            write_base_offset_and_epoch(view, base, leader_epoch)
            segment.stage(view, length, base + records_count - 1, latest)
            if header is not None:
                self.producers.staged(header, base)
        elif segment.has_rows_for(count, length):
            offsets = stamp_run(batches, base, leader_epoch)
            segment.stage_run(batches, offsets)
            if batches[0][3] is not None:
                for offset, batch in zip(offsets, batches, strict=False):
                    assert batch[3] is not None
                    self.producers.staged(batch[3], offset)
        else:
            return []
        self._staged_count += count
        self._next_offset = offsets[-1]
        return offsets

    def write_staged(self) -> None:
        """Write all staged batches with one gathered write; only then they are in the log. Raises LogWriteFailed."""
        if not self._staged_count:
            return
        if self._failure is not None:
            self._active.drop_staged()
            self._lose_staged(self._failure.cause)
        try:
            self._active.write_staged()
        except OSError as error:
            self._lose_staged(error)
        self._staged_count = 0
        self._epochs_before = None
        self.end_offset = self._next_offset
        self.producers.written()
        if self._aborted.staged or self._aborted.unnoted:
            self._aborted.written(self._active.transaction_index)

    def begin_epoch(self, epoch: LeaderEpoch) -> None:
        """This replica leads from here on: what epochs before it have elsewhere beyond this end never was."""
        if epoch > self.epochs.latest:
            self.epochs.assign(epoch, self.end_offset)
            self._is_as_closed = False

    def append_replicated(self, view: memoryview) -> Offset:
        """Append batches that a leader gave their offsets; returns the new end. Offsets may skip, but never go back.

        They are written as they came, with one gathered write for each segment.
        """
        position = 0
        while position < len(view):
            header = read_header(view, position)
            base, last = Offset(header.base_offset), header.base_offset + header.last_offset_delta
            assert base >= self._next_offset, f"batch at {base} before the end {self._next_offset} of {self.partition}"
            length = header.batch_length + LENGTH_OVERHEAD_BYTES
            timestamp = header.max_timestamp
            segment = self._active
            if (
                segment.staged_size + length > segment.full_at
                or timestamp > self._roll_timestamp
                or last > segment.last_offset_max
            ):
                if last > segment.last_offset_max:
                    self._skip_to(base)
                segment = self._make_room(length, last, timestamp)
            batch = view[position : position + length]
            segment.stage(batch, length, last, timestamp)
            if header.producer_id >= 0:
                self._stage_producer(header, batch, base)
            if header.leader_epoch > self.epochs.latest:
                self._stage_epoch(LeaderEpoch(header.leader_epoch), base)
            self._staged_count += 1
            self._next_offset = Offset(last + 1)
            position += length
        self.write_staged()
        return self.end_offset

    def _stage_producer(self, header: BatchHeader, view: memoryview, base: Offset) -> None:
        if not header.attributes & CONTROL_FLAG:
            self.producers.staged(header, base)
            return
        marker = read_marker(view)
        if marker is None:
            return
        completed = self.producers.staged_marker(header, base, marker)
        if completed is not None and completed.aborted:
            self._aborted.stage(completed, self.producers.last_stable_offset_after(completed))

    def _stage_epoch(self, epoch: LeaderEpoch, start: Offset) -> None:
        assert epoch > self.epochs.latest, f"epoch {epoch} follows {self.epochs.latest} in {self.partition}"
        if self._epochs_before is None:
            self._epochs_before = LeaderEpochs(list(self.epochs.entries))
            self._epochs_before.dirty = self.epochs.dirty
        self.epochs.assign(epoch, start)

    def _lose_staged(self, error: OSError) -> None:
        first_lost = self.end_offset
        self._staged_count = 0
        self._next_offset = first_lost
        self._roll_timestamp = _ASK_EVERY_TIME
        self.producers.not_written()
        if self._epochs_before is not None:
            self.epochs, self._epochs_before = self._epochs_before, None
        self._aborted.lose_staged()
        if self._active.size == 0:
            self._active.first_timestamp = None
        if self._active.torn:
            self._failure = LogFailed(f"{self.partition} has a torn end that could not be cut", error)
        raise LogWriteFailed(f"cannot append to {self.partition}", error, first_lost) from error

    def _skip_to(self, base: Offset) -> None:
        """What is too far from the end begins a segment of its own. A recovery must not take that for a hole: sync."""
        if base - self._next_offset > SKIP_WITHIN_SEGMENTS_MAX:
            self.write_staged()
            try:
                self.flush()
            except LogFlushFailed:
                self._raise_if_failed()
            self._next_offset = base

    def _make_room(self, length: int, last: int, timestamp: int) -> Segment:
        """The segment that takes this batch: the active one, or a new one after it."""
        self._raise_if_failed()
        self._is_as_closed = False
        if length > self.config.segment_bytes:
            raise ProtocolError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"a batch of {length} bytes is larger than segment.bytes ({self.config.segment_bytes})",
            )
        segment = self._active
        try:
            segment.prepare_to_append()
            if roll_is_due(segment, length, last, timestamp, self.config.segment_ms, self.clock):
                self.write_staged()
                segment = self._roll(self._next_offset)
        except OSError as error:
            self._active.drop_staged()
            self._lose_staged(error)
        if not segment.staged_size:
            segment.first_timestamp = timestamp
        first = segment.first_timestamp
        self._roll_timestamp = _ASK_EVERY_TIME if first is None or first < 0 else first + self.config.segment_ms
        return segment

    def roll(self) -> None:
        """Seal the active segment and start a new one, unless it is empty. Raises LogFailed."""
        self._is_as_closed = False
        self.write_staged()
        self._raise_if_failed()
        if self._active.size:
            try:
                self._roll(self.end_offset)
            except OSError as error:
                raise LogFailed(f"cannot start a new segment of {self.partition}", error) from error

    def _roll(self, base: Offset) -> Segment:
        assert not self._staged_count
        sealed = self._active
        self._aborted.note(sealed.transaction_index)
        sealed.note_largest_timestamp()
        sealed.write_indexes()
        self.snapshots.take(base, self.producers)
        segment = self._add_segment(base)
        sealed.seal()
        return segment

    def _add_segment(self, base: Offset) -> Segment:
        self._active = self._segments.add(base, self.config)
        self._durability.has_new_names = True
        self._roll_timestamp = _ASK_EVERY_TIME
        return self._active

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

    def flush(self) -> Offset:
        """Return when everything written so far is on the disk, with that end offset. Safe in a thread beside appends.

        A failed sync fails the log for good: what the disk holds is unknown then. Raises LogFlushFailed. A log that is
        deleted meanwhile needs no sync.
        """
        self._raise_if_failed()
        end = self.end_offset
        try:
            self._durability.sync(end, self.epochs, self.snapshots, self.clock.now_ms())
        except OSError as error:
            self._flush_failed(error)
        return end

    def flush_sealed(self) -> None:
        """The same for sealed segments alone, so that a start after a crash need not check them. Safe in a thread."""
        self._raise_if_failed()
        try:
            self._durability.sync_sealed(self.epochs, self.snapshots)
        except OSError as error:
            self._flush_failed(error)

    def _flush_failed(self, error: OSError) -> None:
        if not self.deleted:
            self._failure = failure = LogFlushFailed(f"cannot sync {self.partition}", error)
            raise failure from error

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

    @property
    def failure(self) -> LogFailed | None:
        """Why this log can be written no more, if so."""
        return self._failure

    def _raise_if_failed(self) -> None:
        if self._failure is not None:
            raise LogWriteFailed(
                f"{self.partition} failed before", self._failure.cause, self.end_offset
            ) from self._failure

    # --- cutting ------------------------------------------------------------------------------------------------------

    def truncate_to(self, offset: Offset) -> None:
        """Drop the batch that holds `offset` and everything after it, durably. Raises LogFailed.

        The recovery point on disk must not be after `offset` when this is called: use `LogDirectories.truncate`.
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
            self.end_offset = self._next_offset = self._active.next_offset()
            # The start may lie within the batch that is gone as a whole.
            self.start_offset = min(self.start_offset, self.end_offset)
            self.lower_recovery_point(self.end_offset)
            self.epochs.truncate_from_end(self.end_offset)
            self._reload_producers()
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
            self.start_offset = self.end_offset = self._next_offset = offset
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
        self._roll_timestamp = _ASK_EVERY_TIME

    def _reload_producers(self) -> None:
        self.snapshots.remove_after(self.end_offset)
        self.producers = load_producers(self._segments.copy(), self.snapshots, self.end_offset)

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
        self._roll_timestamp = _ASK_EVERY_TIME

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
