"""A partition that another broker leads: takes what was fetched from there into the log, byte for byte, and cuts the
log where the leader's is another (KIP-101, KIP-279, KIP-595), never at the high watermark.

`replica/fetcher.py` asks the leader and calls `take`; consumers may read here, too, below the high watermark (KIP-392).
It never decides who leads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tidelog.log.epochs import EpochEnd
from tidelog.log.errors import LogWriteFailed
from tidelog.log.file_slice import FileSlice
from tidelog.log.partition import PartitionLog
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import NO_EPOCH, LeaderEpoch, NodeId, Offset, PartitionIndex, TopicId, TopicName
from tidelog.model.topic_settings import TopicConfig
from tidelog.replica.disk import Disk
from tidelog.replica.divergence import common_end, divergence
from tidelog.replica.leader import RESIGNED
from tidelog.replica.throttle import Throttle
from tidelog.replica.waiting import Watcher
from tidelog.wire.batch import HEADER_BYTES, LENGTH_OVERHEAD_BYTES, MAGIC, is_crc_valid, read_header
from tidelog.wire.messages.fetch import PartitionData


@dataclass(frozen=True, slots=True)
class GoOn:
    """Fetch again from where the log ends now."""


@dataclass(frozen=True, slots=True)
class Truncate:
    """Cut the log at this offset, then fetch again."""

    offset: Offset


@dataclass(frozen=True, slots=True)
class StartOver:
    """Drop the whole log and begin at this offset: the leader has nothing older, or nothing in common."""

    offset: Offset


@dataclass(frozen=True, slots=True)
class SyncFirst:
    """Fetch again when what was written is on the disk: the next fetch says that it is here to stay."""


@dataclass(frozen=True, slots=True)
class BackOff:
    """Fetch again a little later."""

    code: ErrorCode
    reason: str = ""
    # Whether somebody has said so already, for all partitions at once.
    is_known: bool = False


Outcome = GoOn | Truncate | StartOver | SyncFirst | BackOff
GO_ON: Final = GoOn()
SYNC_FIRST: Final = SyncFirst()
NO_ROOM: Final = BackOff(ErrorCode.KAFKA_STORAGE_ERROR, "The disk is nearly full.", is_known=True)


class PartitionFollower:
    __slots__ = (
        "_disk",
        "_on_synced",
        "_unread_bytes",
        "bytes_in",
        "bytes_out",
        "config",
        "corrupt_batches",
        "end_watchers",
        "epoch",
        "failed",
        "has_no_room",
        "high_watermark",
        "index",
        "is_behind",
        "leader",
        "log",
        "resigned",
        "throttle",
        "topic",
        "topic_id",
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
        leader: NodeId,
        high_watermark: Offset,
        disk: Disk,
        on_synced: Callable[[PartitionFollower], None],
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.log = log
        self.config = config
        self.epoch = epoch
        # NO_NODE while nobody leads.
        self.leader = leader
        self.high_watermark = Offset(min(max(high_watermark, log.start_offset), log.end_offset))
        self._disk = disk
        self._on_synced = on_synced
        self.failed = False
        # While its disk is nearly full it takes no records, and leaves the ISR for it when that lasts.
        self.has_no_room = False
        self.resigned = False
        self.watchers: dict[Watcher, None] = {}
        # Nobody replicates from a follower; a leader tells these, and readers need not know which one they read from.
        self.end_watchers: dict[Watcher, None] = {}
        self._unread_bytes = 0
        # What this replica's bytes are counted against while it is moved, if so.
        self.throttle: Throttle | None = None
        # Whether the leader had committed more than this replica has.
        self.is_behind = True
        self.bytes_in = 0
        self.bytes_out = 0
        self.corrupt_batches = 0

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"

    def configure(self, config: TopicConfig) -> None:
        """Take new topic settings into use."""
        self.config = config

    # Replicating

    def take(self, data: PartitionData) -> Outcome:
        """Take in what the leader answered to a fetch from this log's end; says how to go on."""
        if self.log.epochs.latest > self.epoch:
            # This log was written in a later epoch: who led in this one must not decide what becomes of it.
            return BackOff(ErrorCode.FENCED_LEADER_EPOCH)
        if data.error_code:
            return self._refused(ErrorCode(data.error_code), Offset(data.log_start_offset))
        if data.diverging_epoch.epoch >= 0:
            return Truncate(common_end(self.log, data.diverging_epoch))
        outcome: Outcome = GO_ON
        records = data.records
        if records is not None and len(records):
            assert isinstance(records, bytes | memoryview), "fetched records are bytes in memory"
            outcome = self._append(memoryview(records))
        if self.failed:
            return BackOff(ErrorCode.KAFKA_STORAGE_ERROR)
        self.is_behind = data.high_watermark > self.log.end_offset
        self._move_high_watermark(Offset(min(data.high_watermark, self.log.end_offset)))
        self._advance_start(Offset(data.log_start_offset))
        return outcome

    def _refused(self, code: ErrorCode, leader_start: Offset) -> Outcome:
        if code is ErrorCode.OFFSET_OUT_OF_RANGE and leader_start >= 0:
            return StartOver(leader_start)
        return BackOff(code)

    def _append(self, records: memoryview) -> Outcome:
        if self.has_no_room:
            return NO_ROOM
        sound, refusal = self._sound_part(records)
        if len(sound):
            try:
                self.log.append_replicated(sound)
            except LogWriteFailed as failure:
                self._disk.write_failed(self, failure)
                return BackOff(ErrorCode.KAFKA_STORAGE_ERROR, str(failure))
            except ProtocolError as error:
                return BackOff(error.code, error.message or "")
            self.bytes_in += len(sound)
            if self.throttle is not None:
                self.throttle.spend(len(sound))
            self._unread_bytes += len(sound)
        if self.syncs_first():
            return SYNC_FIRST
        return refusal or GO_ON

    def _sound_part(self, records: memoryview) -> tuple[memoryview, BackOff | None]:
        """The whole batches from the start on that are what their CRC says, and why there are no more, if so."""
        position, expected = 0, self.log.end_offset
        while len(records) - position >= HEADER_BYTES:
            header = read_header(records, position)
            end = position + header.batch_length + LENGTH_OVERHEAD_BYTES
            if end > len(records) and position:
                break  # A leader may cut the last batch off; it comes whole with the next fetch.
            batch = records[position:end]
            if (
                end > len(records)
                or header.magic != MAGIC
                or end - position < HEADER_BYTES
                or header.last_offset_delta < 0
                or header.leader_epoch > self.epoch
                or not is_crc_valid(batch, header)
            ):
                self.corrupt_batches += 1
                reason = f"the batch fetched at offset {expected} is corrupt"
                return records[:position], BackOff(ErrorCode.CORRUPT_MESSAGE, reason)
            if header.base_offset < expected and not self._begins_within(header.base_offset, header.last_offset):
                reason = f"a batch at offset {header.base_offset} came for a log that ends at {expected}"
                return records[:position], BackOff(ErrorCode.OFFSET_OUT_OF_RANGE, reason)
            expected = header.next_offset
            position = end
        return records[:position], None

    def _begins_within(self, base: int, last: int) -> bool:
        """A log that starts over where the leader's starts may have to begin with the batch around that offset."""
        log = self.log
        if log.start_offset != log.end_offset or last < log.end_offset:
            return False
        log.truncate_fully_and_start_at(Offset(base))
        return True

    def syncs_first(self) -> bool:
        """Whether a sync is due, and now under way, before a fetch may say that all this is here to stay."""
        is_due = self.log.unflushed_records >= self.config.flush_messages
        if is_due:
            self._disk.sync_due(self)
        return is_due

    def synced(self) -> None:
        """What was written when the sync began is on the disk."""
        if not self.resigned and not self.syncs_first():
            self._on_synced(self)

    def fail(self) -> None:
        """The disk under this partition is gone."""
        self.failed = True
        self._wake_all()

    def truncated(self) -> None:
        """The log was cut: nothing beyond its end was ever committed here."""
        self.high_watermark = Offset(min(max(self.high_watermark, self.log.start_offset), self.log.end_offset))
        self._unread_bytes = 0

    def _move_high_watermark(self, high_watermark: Offset) -> None:
        if high_watermark <= self.high_watermark:
            return
        self.high_watermark = high_watermark
        if self.log.producers.ended:
            self.log.producers.replicated_up_to(high_watermark)
        grown_bytes, self._unread_bytes = self._unread_bytes, 0
        for watcher in tuple(self.watchers):
            watcher.grew(self, grown_bytes)

    def _advance_start(self, leader_start: Offset) -> None:
        start = Offset(min(leader_start, self.high_watermark))
        if start > self.log.start_offset:
            self.log.advance_start_offset(start)

    def resign(self) -> None:
        """This broker leads now, or holds the partition no more: whoever waits here is told to look again."""
        self.resigned = True
        self._wake_all()

    def _wake_all(self) -> None:
        for watcher in tuple(self.watchers):
            watcher.grew(self, RESIGNED)
        self.watchers.clear()

    @property
    def is_held_back(self) -> bool:
        """Whether it must not fetch now: it is not in sync, and too much was copied of late."""
        return self.throttle is not None and self.is_behind and self.throttle.is_exceeded

    # Reading

    def check_epoch(self, client_epoch: int) -> None:
        """Fence readers whose metadata is older, or newer, than this broker's (KIP-320)."""
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

    @property
    def is_throttled(self) -> bool:
        return False

    @property
    def replicas(self) -> tuple[NodeId, ...]:
        """Those who may replicate from here: nobody."""
        return ()

    def divergence(self, epoch: LeaderEpoch, offset: Offset) -> EpochEnd | None:
        """Where a log that has `epoch` just before `offset` parts from this one; None when it does not (KIP-595)."""
        return divergence(self.log, epoch, offset)

    def read(self, offset: Offset, max_bytes: int, up_to: Offset, at_least_one_batch: bool) -> FileSlice | None:
        return self.log.read(offset, max_bytes, up_to, at_least_one_batch)
