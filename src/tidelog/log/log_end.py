"""The end of a partition's log, where batches become part of it: staged, written, synced, or lost and taken back.

Appending is two steps, so that all batches of a loop turn share one gathered write: `stage` gives each its offset,
`write_staged` puts them into the file. What is behind the end is `log/partition.py`, whose logs are made of this.
"""

from __future__ import annotations

from typing import Final

from tidelog.env.clock import Clock
from tidelog.log.aborted_notes import AbortedNotes
from tidelog.log.config import LogConfig
from tidelog.log.durability import Durability
from tidelog.log.epochs import LeaderEpochs
from tidelog.log.errors import LogFailed, LogFlushFailed, LogWriteFailed
from tidelog.log.log_state import LogState
from tidelog.log.markers import read_marker
from tidelog.log.offset_index import SKIP_WITHIN_SEGMENTS_MAX
from tidelog.log.open_files import OpenFiles
from tidelog.log.producer_tail import ProducerTail
from tidelog.log.rolling import roll_is_due
from tidelog.log.segment import Segment
from tidelog.log.segments import Segments
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import LeaderEpoch, Offset, ProducerEpoch, ProducerId, TopicPartition
from tidelog.wire.batch import (
    CONTROL_FLAG,
    LENGTH_OVERHEAD_BYTES,
    BatchHeader,
    read_header,
    write_base_offset_and_epoch,
)
from tidelog.wire.batch_run import BatchRun, pack_stamp
from tidelog.wire.small_batch import MARKER_BYTES, build_marker

# No timestamp is smaller: with this as the limit every batch takes the slow path, where the decision is made properly.
ASK_EVERY_TIME: Final = -(2**63)


class LogEnd:
    """Takes batches at the end of one log, and keeps segments, leader epochs and producers in step."""

    __slots__ = (
        "_aborted",
        "_active",
        "_durability",
        "_epochs_before",
        "_failure",
        "_is_as_closed",
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
        "next_offset",
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
        # Behind what is written, and behind what is staged, too: what the next batch gets.
        self.end_offset = self.next_offset = state.end_offset
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
        self._roll_timestamp = ASK_EVERY_TIME
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
        base = self.next_offset
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
        self.next_offset = Offset(last + 1)
        return base

    def stage_marker(
        self,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
        is_commit: bool,
        coordinator_epoch: int,
        timestamp_ms: int,
        leader_epoch: LeaderEpoch,
    ) -> Offset:
        """Make the batch that ends a producer's transaction here, and `stage` it. Gives its offset."""
        base = self.next_offset
        segment = self._active
        if (
            segment.staged_size + MARKER_BYTES > segment.full_at
            or timestamp_ms > self._roll_timestamp
            or base > segment.last_offset_max
        ):
            segment = self._make_room(MARKER_BYTES, base, timestamp_ms)
        batch = build_marker(
            is_commit, producer_id, producer_epoch, coordinator_epoch, timestamp_ms, base, leader_epoch
        )
        segment.stage(batch, MARKER_BYTES, base, timestamp_ms)
        completed = self.producers.staged_end(
            producer_id, producer_epoch, timestamp_ms, base, is_commit, coordinator_epoch
        )
        if completed is not None and not is_commit:
            self._aborted.stage(completed, self.producers.last_stable_offset_after(completed))
        if leader_epoch != self.epochs.latest:
            self._stage_epoch(leader_epoch, base)
        self._staged_count += 1
        self.next_offset = Offset(base + 1)
        return base

    @property
    def takes_runs(self) -> bool:
        """Whether it is known until when the active segment is to be used."""
        return self._roll_timestamp != ASK_EVERY_TIME

    def stage_run(
        self, run: BatchRun, size_bytes: int, latest: int, leader_epoch: LeaderEpoch, going_on: ProducerTail | None
    ) -> list[Offset]:
        """The same as `stage` for each batch of a run, which has so many bytes and this as its latest timestamp.

        `going_on` is what `producers` say of it, now. Gives the base offset of each, and the one after the last. Gives
        nothing and does nothing when a new segment or epoch may begin within: so a run is written as a whole, or not
        at all.
        """
        segment = self._active
        base = self.next_offset
        if (
            segment.staged_size + size_bytes > segment.full_at
            or latest > self._roll_timestamp
            # A record has more than one byte, so there are fewer offsets than bytes.
            or base + size_bytes > segment.last_offset_max
            or leader_epoch != self.epochs.latest
        ):
            return []
        count = len(run.views)
        if count > 1 and not segment.has_rows_for(size_bytes):
            return []
        offsets = run.stamp(base, leader_epoch)
        end = offsets[-1]
        if count == 1:
            segment.stage(run.views[0], size_bytes, end - 1, latest)
        else:
            segment.stage_run(run, offsets, size_bytes, latest)
        if run.producer_id >= 0:
            self.producers.staged_run(run, base, end, run.record_counts, run.max_timestamps, going_on)
        self._staged_count += count
        self.next_offset = end
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
        producers = self.producers
        self.end_offset = producers.written_end = self.next_offset
        if producers.before:
            producers.written()
        if self._aborted.staged or self._aborted.unnoted:
            self._aborted.written(self._active.transaction_index)

    def append_alone(self, batch: bytearray, timestamp_ms: int, leader_epoch: LeaderEpoch) -> Offset | None:
        """Write a batch of one record of this time, without a producer: the same as `stage` and `write_staged`.

        Gives the offset after it. None, and nothing is done, when others are staged, or a new segment or epoch may
        begin. Raises LogWriteFailed.
        """
        base, segment, length = self.next_offset, self._active, len(batch)
        if (
            self._staged_count
            or self._failure is not None
            or segment.staged_size + length > segment.full_at
            or timestamp_ms > self._roll_timestamp
            or base > segment.last_offset_max
            or leader_epoch != self.epochs.latest
        ):
            return None
        pack_stamp(batch, 0, base, length - LENGTH_OVERHEAD_BYTES, leader_epoch)
        segment.stage(batch, length, base, timestamp_ms)
        try:
            segment.write_staged()
        except OSError as error:
            self._lose_staged(error)
        self.next_offset = self.end_offset = Offset(base + 1)
        return self.end_offset

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
            assert base >= self.next_offset, f"batch at {base} before the end {self.next_offset} of {self.partition}"
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
            self.next_offset = Offset(last + 1)
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
        self.next_offset = first_lost
        self._roll_timestamp = ASK_EVERY_TIME
        self.producers.not_written(first_lost)
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
        if base - self.next_offset > SKIP_WITHIN_SEGMENTS_MAX:
            self.write_staged()
            try:
                self.flush()
            except LogFlushFailed:
                self._raise_if_failed()
            self.next_offset = base

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
                segment = self._roll(self.next_offset)
        except OSError as error:
            self._active.drop_staged()
            self._lose_staged(error)
        if not segment.staged_size:
            segment.first_timestamp = timestamp
        first = segment.first_timestamp
        self._roll_timestamp = ASK_EVERY_TIME if first is None or first < 0 else first + self.config.segment_ms
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
        self._roll_timestamp = ASK_EVERY_TIME
        return self._active

    # --- failing and syncing ------------------------------------------------------------------------------------------

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

    def _flush_failed(self, error: OSError) -> None:
        if not self.deleted:
            self._failure = failure = LogFlushFailed(f"cannot sync {self.partition}", error)
            raise failure from error

    @property
    def failure(self) -> LogFailed | None:
        """Why this log can be written no more, if so."""
        return self._failure

    def _raise_if_failed(self) -> None:
        if self._failure is not None:
            raise LogWriteFailed(
                f"{self.partition} failed before", self._failure.cause, self.end_offset
            ) from self._failure
