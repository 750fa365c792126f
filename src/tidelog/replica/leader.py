"""The leader of one partition on this broker: appends what producers send, moves the high watermark, serves reads.

Appending has two steps, so that all produce requests of a loop turn share one gathered write: `stage` checks a batch
and gives it its offset, `write_staged` writes what was staged. Called by the produce, fetch and offset handlers;
decides nothing about who leads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from tidelog.log.epochs import EpochEnd
from tidelog.log.errors import LogWriteFailed
from tidelog.log.file_slice import FileSlice
from tidelog.log.partition import PartitionLog
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import (
    NO_EPOCH,
    LeaderEpoch,
    NodeId,
    Offset,
    PartitionIndex,
    ProducerEpoch,
    ProducerId,
    TopicId,
    TopicName,
)
from tidelog.model.topic_settings import TopicConfig
from tidelog.replica.disk import Disk
from tidelog.replica.divergence import divergence
from tidelog.replica.in_sync import InSync
from tidelog.replica.record_rules import check_timestamps
from tidelog.replica.refusal import OFFLINE, READ_ONLY, Refusal
from tidelog.replica.rewriting import BatchRewriter
from tidelog.replica.throttle import is_throttled
from tidelog.replica.waiting import AcksWaiter, WaitingAcks, Watcher
from tidelog.wire.batch import (
    LENGTH_OVERHEAD_BYTES,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    check_produced_batch,
    check_timestamp_range,
    read_header,
)
from tidelog.wire.batch_run import BatchRun
from tidelog.wire.messages.fetch import FetchPartition
from tidelog.wire.messages.produce import PartitionProduceResponse
from tidelog.wire.small_batch import MARKER_LENGTH

NEVER_MS: Final = 2**63 - 1
# Enough growth to wake every waiting fetch: it will find that the partition is no longer led here, or begins later.
RESIGNED: Final = 2**62
NOTHING_WRITTEN: Final = Offset(-1)
# Stands among the answers of a turn for what the broker itself wrote: nobody reads it.
OWN_BATCH: Final = PartitionProduceResponse(-1, base_offset=-1)


class StagedAnswer(Protocol):
    """Where a producer's answer is put together: the offsets when its batch is staged, an error when a write fails."""

    base_offset: int
    error_code: int
    log_append_time_ms: int
    log_start_offset: int


class OwnWriter(Protocol):
    """Who was promised the next offsets of a partition, for records of the broker itself."""

    def stage_expected(self, leader: PartitionLeader) -> None:
        """Stage them now (`stage_own`): the partition is about to be written, or somebody else has come."""
        ...


class PartitionLeader:
    __slots__ = (
        "_counted_end",
        "_disk",
        "_expected",
        "_may_take_runs",
        "_no_room",
        "_on_staged",
        "_refusal",
        "_refuses_old",
        "_rewriter",
        "_staged",
        "_staged_bytes",
        "_unread_bytes",
        "_unsynced_growth_bytes",
        "batches_refused",
        "bytes_in",
        "bytes_out",
        "config",
        "end_watchers",
        "epoch",
        "failed",
        "high_watermark",
        "in_sync",
        "index",
        "is_throttled",
        "log",
        "records_in",
        "resigned",
        "staged_end_offset",
        "start_watchers",
        "syncs_first",
        "topic",
        "topic_id",
        "waiting_acks",
        "watchers",
    )

    def __init__(
        self,
        *,
        topic: TopicName,
        topic_id: TopicId,
        index: PartitionIndex,
        log: PartitionLog,
        config: TopicConfig,
        epoch: LeaderEpoch,
        in_sync: InSync,
        high_watermark: Offset,
        on_staged: Callable[[PartitionLeader], None],
        disk: Disk,
    ) -> None:
        """`high_watermark` is what this broker knew of it as a follower, or wrote down before it stopped."""
        self._on_staged = on_staged
        self._disk = disk
        self.failed = False
        self._no_room: Refusal | None = None
        self._refusal: Refusal | None = READ_ONLY if log.is_read_only else None
        self._unsynced_growth_bytes = 0
        self._staged_bytes = 0
        self._expected: OwnWriter | None = None
        # Where the log will end once the turn has written; acks=all waits for the high watermark to get there.
        self.staged_end_offset = log.end_offset
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.log = log
        self.epoch = epoch
        # From the first moment, so that a follower with records of an epoch that was lost here is told where it ended.
        log.begin_epoch(epoch)
        self.in_sync = in_sync
        # Whether another broker leads now, or nobody.
        self.resigned = False
        self.waiting_acks = WaitingAcks()
        # Insertion-ordered, so that who has waited longest is told first.
        self.watchers: dict[Watcher, None] = {}
        # Followers read beyond the high watermark: they are told when the log grows.
        self.end_watchers: dict[Watcher, None] = {}
        # Called when a follower begins at another offset (DeleteRecords waits for that).
        self.start_watchers: dict[Callable[[], None], None] = {}
        # Up to where this replica counts: the end of its log, or of what is synced where that is asked for.
        self._counted_end = log.end_offset
        # What was written beyond the high watermark.
        self._unread_bytes = 0
        self._staged: list[StagedAnswer] = []
        self.records_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.batches_refused = 0
        self.configure(config)
        if self.syncs_first and log.unflushed_records >= config.flush_messages:
            # What a crash left in the page cache was not acknowledged, and may still be lost.
            self._counted_end = log.recovery_point
            disk.sync_due(self)
        self.high_watermark = Offset(min(max(high_watermark, log.start_offset), self._counted_end))
        self._move_high_watermark()
        log.producers.replicated_up_to(self.high_watermark)

    @property
    def replicas(self) -> tuple[NodeId, ...]:
        return self.in_sync.replicas

    @property
    def isr(self) -> tuple[NodeId, ...]:
        return self.in_sync.isr

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"

    def configure(self, config: TopicConfig) -> None:
        """Take new topic settings into use."""
        self.config = config
        self._rewriter = BatchRewriter.for_topic(config, str(self))
        self.syncs_first = config.flush_messages < NEVER_MS
        self._refuses_old = config.message_timestamp_before_max_ms < NEVER_MS
        self._may_take_runs = self._rewriter is None and not self.syncs_first and not self._refuses_old
        # Whether followers that are not in sync are sent no more than the broker's rate.
        self.is_throttled = is_throttled(config.leader_replication_throttled_replicas, self.index, self.in_sync.node_id)

    @property
    def no_room(self) -> Refusal | None:
        """Set while the disk is nearly full: producers are refused, coordinators are not."""
        return self._no_room

    @no_room.setter
    def no_room(self, refusal: Refusal | None) -> None:
        self._no_room = refusal
        if not self.failed and not self.log.is_read_only:
            self._refusal = refusal

    # Appending

    def stage(self, records: memoryview | None, answer: StagedAnswer, now_ms: int) -> None:
        """Check one batch, give it its offset and keep it for the turn's write. Raises ProtocolError for a bad one."""
        if self._refusal is not None:
            raise ProtocolError(*self._refusal)
        if records is None:
            raise ProtocolError(ErrorCode.INVALID_RECORD, "there is no record batch")
        if self._expected is not None:
            self.stage_expected()
        config = self.config
        header = check_produced_batch(records, config.max_message_bytes)
        rewriter = self._rewriter
        if header.max_timestamp > now_ms + config.message_timestamp_after_max_ms or self._refuses_old:
            self._check_timestamps(header, records, now_ms)
        if rewriter is not None:
            header, records = rewriter.rewrite(header, records, now_ms)
            if rewriter.stamps_time:
                answer.log_append_time_ms = now_ms
        log = self.log
        if header.producer_id >= 0:
            duplicate = log.producers.check(header)
            if duplicate is not None:
                answer.base_offset = duplicate.base_offset
                answer.log_start_offset = log.start_offset
                return
            if header.attributes & TRANSACTIONAL_FLAG:
                log.producers.check_begin(header)
        try:
            base_offset = log.stage(header, records, self.epoch)
        except LogWriteFailed as failure:
            # A new segment was due, and what was staged before could not be written.
            self._lose_staged(failure)
            raise ProtocolError(ErrorCode.KAFKA_STORAGE_ERROR, "the log cannot be written") from failure
        answer.base_offset = base_offset
        answer.log_start_offset = log.start_offset
        self.staged_end_offset = Offset(base_offset + header.records_count)
        self.records_in += header.records_count
        self._staged_bytes += header.batch_length
        if not self._staged:
            self._on_staged(self)
        self._staged.append(answer)

    @property
    def takes_runs(self) -> bool:
        """Whether `stage_run` is worth a try: nothing about single batches is looked at here."""
        return self._may_take_runs and self._refusal is None and self.log.takes_runs

    def stage_run(self, run: BatchRun, answer: StagedAnswer, now_ms: int, *, has_agreed: bool = False) -> list[Offset]:
        """Take batches that were checked, all but their size and time: the same as `stage` for each, but cheaper.

        Gives the base offset of each, and the one after the last; none when the first is for `stage` to judge.
        `has_agreed`: a transaction may begin with them, as its coordinator has said just now.
        """
        config = self.config
        views = run.views
        if len(views) == 1:
            size_bytes, latest = len(views[0]), run.max_timestamps[0]
        else:
            size_bytes, latest = sum(map(len, views)), max(run.max_timestamps)
        if (
            not self._may_take_runs
            or self._refusal is not None
            or self._expected is not None
            or latest > now_ms + config.message_timestamp_after_max_ms
            or (size_bytes > config.max_message_bytes and max(map(len, views)) > config.max_message_bytes)
        ):
            return []
        log = self.log
        going_on = None
        if run.producer_id >= 0:
            going_on = log.producers.going_on(run)
            if going_on is None and not log.producers.is_next(run, has_agreed):
                return []
        offsets = log.stage_run(run, size_bytes, latest, self.epoch, going_on)
        if offsets:
            answer.base_offset = offsets[0]
            answer.log_start_offset = log.start_offset
            end = self.staged_end_offset = offsets[-1]
            self.records_in += end - offsets[0]
            self._staged_bytes += size_bytes
            if not self._staged:
                self._on_staged(self)
            self._staged.append(answer)
        return offsets

    def stage_own(self, batch: bytes | bytearray, waiter: AcksWaiter) -> Offset:
        """Take a batch that the broker itself writes (a coordinator's records); returns the offset after it.

        A bytearray is taken over, bytes are copied: offset and epoch are written into them.

        The waiter is told when it is replicated. Raises ProtocolError when the log cannot be written.
        """
        end = self._stage_own(batch if isinstance(batch, bytearray) else bytearray(batch))
        if not self._staged:
            self._on_staged(self)
        self._staged.append(OWN_BATCH)
        self.waiting_acks.add(end, waiter)
        return end

    def append_marker(
        self,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
        is_commit: bool,
        coordinator_epoch: int,
        timestamp_ms: int,
    ) -> None:
        """End a producer's transaction here: the same as `append_own` with the batch that says so."""
        if self.failed or self.resigned:
            raise ProtocolError(*OFFLINE)
        if self._expected is not None:
            self.stage_expected()
        try:
            offset = self.log.stage_marker(
                producer_id, producer_epoch, is_commit, coordinator_epoch, timestamp_ms, self.epoch
            )
        except LogWriteFailed as failure:
            self._lose_staged(failure)
            raise ProtocolError(ErrorCode.KAFKA_STORAGE_ERROR, "the log cannot be written") from failure
        self.staged_end_offset = end = Offset(offset + 1)
        self._staged_bytes += MARKER_LENGTH
        self.records_in += 1
        self._write_own(end)

    def append_own(self, batch: bytearray, timestamp_ms: int) -> Offset:
        """Write a batch of the broker itself, which is one record of this time, and all that is staged before it, now;
        returns the offset after it.

        Nobody is told of it: it is for logs where this write alone makes it safe (`own_write_is_enough`). Raises
        ProtocolError when it is not written.
        """
        if not self._staged and not self.failed:
            try:
                written = self.log.append_alone(batch, timestamp_ms, self.epoch)
            except LogWriteFailed as failure:
                self._lose_staged(failure)
                raise ProtocolError(ErrorCode.KAFKA_STORAGE_ERROR, "the log cannot be written") from failure
            if written is not None:
                self.staged_end_offset = written
                self.records_in += 1
                self._grew(Offset(written - 1), len(batch) - LENGTH_OVERHEAD_BYTES)
                return written
        end = self._stage_own(batch)
        self._write_own(end)
        return end

    def _write_own(self, end: Offset) -> None:
        """Write what is staged, now: the last of it is the broker's own, and ends here."""
        self._staged.append(OWN_BATCH)
        self.write_staged()
        if self.log.end_offset < end:
            raise ProtocolError(ErrorCode.KAFKA_STORAGE_ERROR, "the log cannot be written")

    def _stage_own(self, batch: bytearray) -> Offset:
        if self.failed:
            raise ProtocolError(*OFFLINE)
        if self._expected is not None:
            self.stage_expected()
        view = memoryview(batch)
        header = read_header(view)
        try:
            base_offset = self.log.stage(header, view, self.epoch)
        except LogWriteFailed as failure:
            self._lose_staged(failure)
            raise ProtocolError(ErrorCode.KAFKA_STORAGE_ERROR, "the log cannot be written") from failure
        self.staged_end_offset = end = Offset(base_offset + header.last_offset_delta + 1)
        self._staged_bytes += header.batch_length
        self.records_in += header.records_count
        return end

    def expect_own(self, writer: OwnWriter) -> Offset:
        """Promise the next offsets to records that the broker adds up until the turn's write; returns the first."""
        if self._expected is not None:
            self.stage_expected()
        self._expected = writer
        if not self._staged:
            self._on_staged(self)
        # The turn knows of the write from here on, though the batch comes later.
        self._staged.append(OWN_BATCH)
        return self.log.next_offset

    def stage_expected(self) -> None:
        """Have the one who was promised offsets use them now."""
        writer, self._expected = self._expected, None
        assert writer is not None
        writer.stage_expected(self)

    def _check_timestamps(self, header: BatchHeader, batch: memoryview, now_ms: int) -> None:
        config = self.config
        if config.message_timestamp_type == "CreateTime":
            before_max_ms, after_max_ms = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
            check_timestamps(batch, now_ms, before_max_ms, after_max_ms)
            # What a header claims, though no record has it, would spoil the time index.
            check_timestamp_range(header, now_ms, before_max_ms, after_max_ms)

    def write_staged(self) -> None:
        """Write what the turn has staged. When that fails its answers become errors: nothing is pretended."""
        if self._expected is not None:
            self.stage_expected()
        if not self._staged:
            # It was written earlier in the turn, because somebody could not wait.
            return
        end_before = self.log.end_offset
        try:
            self.log.write_staged()
        except LogWriteFailed as failure:
            self._lose_staged(failure)
        self._staged = []
        grown_bytes, self._staged_bytes = self._staged_bytes, 0
        self._grew(end_before, grown_bytes)

    def _grew(self, end_before: Offset, grown_bytes: int) -> None:
        """So much was written behind this offset."""
        if self.failed or self.resigned:
            return
        log = self.log
        self.bytes_in += grown_bytes
        if self.in_sync.followers:
            self.in_sync.grew(end_before)
            for watcher in tuple(self.end_watchers):
                watcher.grew(self, grown_bytes)
        config = self.config
        if self.syncs_first and log.unflushed_records >= config.flush_messages:
            # What must be on disk before it is acknowledged is not readable before, either.
            self._unsynced_growth_bytes += grown_bytes
            self._disk.sync_due(self)
            return
        if config.flush_ms < NEVER_MS:
            self._disk.sync_later(self, config.flush_ms)
        # The same as `_count`, which this is called more often than.
        self._unread_bytes += grown_bytes
        self._counted_end = log.end_offset
        self._move_high_watermark()

    def _lose_staged(self, failure: LogWriteFailed) -> None:
        for answer in self._staged:
            if answer.base_offset >= failure.first_lost_offset:
                answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
                answer.base_offset = -1
                answer.log_start_offset = -1
        self.staged_end_offset = self.log.end_offset
        self.waiting_acks.fail_beyond(self.log.end_offset)
        self._disk.write_failed(self, failure)

    def synced(self) -> None:
        """A sync is done: what it covers counts as written here."""
        grown_bytes, self._unsynced_growth_bytes = self._unsynced_growth_bytes, 0
        if self.resigned:
            return
        log = self.log
        if log.unflushed_records >= self.config.flush_messages:
            self._count(grown_bytes, log.recovery_point)
            self._disk.sync_due(self)
        else:
            self._count(grown_bytes, log.end_offset)

    def fail(self) -> None:
        """The disk under this partition is gone: nothing is served from it any more, and nobody waits for it."""
        self.failed = True
        self._refusal = OFFLINE
        self.waiting_acks.fail_beyond(NOTHING_WRITTEN)
        self._wake_all()

    def enough_in_sync(self) -> bool:
        """Whether acks=all may be accepted: `min.insync.replicas` is a floor, never above the number of replicas."""
        in_sync = self.in_sync
        return len(in_sync.isr) >= min(self.config.min_insync_replicas, len(in_sync.replicas))

    @property
    def alone_is_enough(self) -> bool:
        """Whether this broker's own write satisfies acks=all: it has the only replica."""
        # Then `min.insync.replicas`, which is never above the number of replicas, is reached by the leader.
        return not self.in_sync.followers

    @property
    def own_write_is_enough(self) -> bool:
        """Whether what is written here is safe with that: no other broker and no sync is to be waited for."""
        return not self.in_sync.followers and not self.syncs_first

    def _count(self, grown_bytes: int, own_end: Offset) -> None:
        self._unread_bytes += grown_bytes
        self._counted_end = own_end
        self._move_high_watermark()

    def _move_high_watermark(self) -> None:
        end = self._counted_end
        if self.in_sync.followers:
            # Below min.insync.replicas nothing becomes committed: eligible leaders still have all that is (KIP-966).
            if not self.enough_in_sync():
                return
            end = self.in_sync.lowest_end(end)
        before = self.high_watermark
        if end <= before:
            return
        self.high_watermark = end
        log = self.log
        if log.producers.ended:
            log.producers.replicated_up_to(end)
        if self.waiting_acks.waiting:
            self.waiting_acks.high_watermark_moved(end)
        unread, log_end = self._unread_bytes, log.end_offset
        grown_bytes = unread if end >= log_end else unread * (end - before) // (log_end - before)
        self._unread_bytes = unread - grown_bytes
        if self.watchers:
            for watcher in tuple(self.watchers):
                watcher.grew(self, grown_bytes)
        # Followers hear of it with the next answer, but nothing is sent because of it alone.
        for watcher in self.end_watchers:
            watcher.grew(self, 0)

    def resign(self) -> None:
        """Another broker leads, or the topic is gone: whoever waits here is told to look again."""
        self.resigned = True
        # Whoever has the log next must not find it half way through a turn.
        self.write_staged()
        self.waiting_acks.fail_beyond(NOTHING_WRITTEN)
        self._wake_all()

    def _wake_all(self) -> None:
        for watcher in (*self.watchers, *self.end_watchers):
            watcher.grew(self, RESIGNED)
        self.watchers.clear()
        self.end_watchers.clear()
        self._start_moved()

    # Replication

    def update(
        self,
        epoch: LeaderEpoch,
        partition_epoch: int,
        replicas: tuple[NodeId, ...],
        isr: tuple[NodeId, ...],
        now_ms: int,
    ) -> None:
        """The metadata says something new of this partition, which this broker still leads."""
        if epoch > self.epoch:
            self.epoch = epoch
            self.log.begin_epoch(epoch)
        self.in_sync.lead(epoch, partition_epoch, replicas, isr, self.log.end_offset, now_ms)
        self._move_high_watermark()

    def isr_changed(self) -> None:
        """The controller has answered a proposal: perhaps fewer must have what is to be committed."""
        self._move_high_watermark()

    def fetched_by(self, node: NodeId, broker_epoch: int, position: FetchPartition, now_ms: int) -> None:
        """Note what a follower has, which is all before the offset that it fetches.

        A fetch that is to be refused says nothing: one of another epoch, or of a log that is not the same as this one.
        """
        in_sync = self.in_sync
        offset, log = Offset(position.fetch_offset), self.log
        if (
            self.failed
            or node not in in_sync.followers
            or position.current_leader_epoch != self.epoch
            or not log.start_offset <= offset <= log.end_offset
        ):
            return
        try:
            if self.divergence(LeaderEpoch(position.last_fetched_epoch), offset) is not None:
                return
        except ProtocolError:
            return
        if in_sync.fetched(node, broker_epoch, offset, Offset(position.log_start_offset), log.end_offset, now_ms):
            self._move_high_watermark()
            if self.start_watchers:
                self._start_moved()

    def divergence(self, epoch: LeaderEpoch, offset: Offset) -> EpochEnd | None:
        """Where a log that has `epoch` just before `offset` parts from this one; None when it does not (KIP-595)."""
        return divergence(self.log, epoch, offset)

    # Reading

    def check_epoch(self, client_epoch: int) -> None:
        """Fence clients whose metadata is older, or newer, than what this leader knows (KIP-320)."""
        if self.failed:
            raise ProtocolError(ErrorCode.KAFKA_STORAGE_ERROR)
        if client_epoch == NO_EPOCH or client_epoch == self.epoch:
            return
        if client_epoch < self.epoch:
            raise ProtocolError(ErrorCode.FENCED_LEADER_EPOCH)
        raise ProtocolError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    @property
    def last_stable_offset(self) -> Offset:
        return self.log.last_stable_offset(self.high_watermark)

    def read(self, offset: Offset, max_bytes: int, up_to: Offset, at_least_one_batch: bool) -> FileSlice | None:
        return self.log.read(offset, max_bytes, up_to, at_least_one_batch)

    def end_offset_for_epoch(self, epoch: LeaderEpoch) -> EpochEnd:
        """Where the records of an epoch end; the current one ends where the log does (KIP-101)."""
        return self.log.end_offset_for_epoch(epoch)

    def delete_records_before(self, offset: Offset) -> Offset:
        """Move the log's start (DeleteRecords); -1 means the high watermark. Returns from where on records stay."""
        if self.failed:
            raise ProtocolError(*OFFLINE)
        if not self.config.is_deleted:
            raise ProtocolError(ErrorCode.POLICY_VIOLATION, "the topic's cleanup.policy does not have delete")
        target = self.high_watermark if offset == -1 else offset
        if target < 0 or target > self.high_watermark:
            raise ProtocolError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} is above the high watermark {self.high_watermark}"
            )
        self.log.advance_start_offset(Offset(target))
        for watcher in tuple(self.watchers):
            watcher.grew(self, 0)
        # Followers are told at once: somebody waits for them to follow.
        for watcher in tuple(self.end_watchers):
            watcher.grew(self, RESIGNED)
        return Offset(target)

    def low_watermark(self, is_alive: Callable[[NodeId], bool]) -> Offset:
        """Where the records begin that any replica on a live broker still has."""
        starts = [one.start_offset for node, one in self.in_sync.followers.items() if is_alive(node)]
        return min([self.log.start_offset, *starts])

    def _start_moved(self) -> None:
        for look in tuple(self.start_watchers):
            look()
