"""One partition of `__consumer_offsets` as a coordinator: its machine, its log as the journal, its timer.

Made by the group coordinator when this broker begins to lead the partition, thrown away when it no longer does. Decides
nothing about groups: that is `groups/`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeVar

from tidelog.broker.logs import log
from tidelog.groups.calls import Outcome, Reply
from tidelog.groups.codec import decode_record, encode_key, encode_value
from tidelog.groups.expiry import expire
from tidelog.groups.loading import loaded
from tidelog.groups.records import EndTransaction, GroupRecord, Record
from tidelog.groups.shard import GroupShard
from tidelog.machine.runtime import Result, Runtime
from tidelog.metadata.image import ClusterImage
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import NO_PRODUCER, LeaderEpoch, Offset, ProducerEpoch, ProducerId
from tidelog.replica.leader import PartitionLeader
from tidelog.wire import control, records
from tidelog.wire.batch import BatchHeader, iter_headers

ReplyT = TypeVar("ReplyT")
READ_BYTES: Final = 4 * 1024 * 1024


class Timer(Protocol):
    def cancel(self) -> None: ...


class Timers(Protocol):
    def call_later(self, delay: float, callback: Callable[[], object]) -> Timer: ...


class ShardHost:
    """Runs commands on one shard, and answers when what they wrote is replicated."""

    def __init__(
        self,
        leader: PartitionLeader,
        build: Callable[[], GroupShard],
        now_ms: Callable[[], int],
        timers: Timers,
        on_failed: Callable[[ShardHost], None],
    ) -> None:
        self._leader = leader
        self._now_ms = now_ms
        self._timers = timers
        self._on_failed = on_failed
        self._timer: Timer | None = None
        self._timer_ms = 0
        # The ends of batches that are staged or written, and not known to be replicated.
        self._appended: deque[Offset] = deque()
        self._runtime: Runtime[GroupShard, Record] = Runtime(build, self, ErrorCode.NOT_COORDINATOR)

    @property
    def shard(self) -> GroupShard:
        return self._runtime.machine

    def start(self) -> None:
        """Load what the log holds, then lead. A partition of groups is compacted, so this is not its whole history."""
        self._load()
        leader = self._leader
        self._runtime.lead(leader.epoch, leader.log.end_offset)
        self.submit(loaded)

    def stop(self) -> None:
        """Another broker leads now: who waits is told so."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        replies = self.shard.unload()
        self._runtime.resign()
        _give(replies)

    def metadata_changed(self, image: ClusterImage) -> None:
        self.shard.metadata_changed(image)
        self._schedule()

    def submit(
        self, command: Callable[[GroupShard, int], Outcome], refused: Callable[[ErrorCode], None] | None = None
    ) -> None:
        """Run a command whose replies go to those who wait, each when it is safe."""

        def answer(replies: Sequence[Reply] | ProtocolError) -> None:
            if isinstance(replies, ProtocolError) and refused is not None:
                refused(replies.code)
            else:
                _give(replies)

        self.ask(lambda shard: command(shard, self._now_ms()), answer)

    def ask(
        self,
        command: Callable[[GroupShard], Result[Record, ReplyT]],
        answer: Callable[[ReplyT | ProtocolError], None],
    ) -> None:
        self._runtime.submit(command, answer)
        self._schedule()

    # The journal of the runtime.

    def append(self, written: Sequence[Record], epoch: LeaderEpoch) -> Offset:
        end = self._leader.stage_own(_batch(written, self._now_ms()), self)
        self._appended.append(end)
        return end

    # What the leader tells who waits for it, once for each batch and in their order.

    def replicated(self) -> None:
        self._runtime.committed(self._appended.popleft())
        self._schedule()

    def failed(self) -> None:
        """What the machine believes was not written: it must begin again from what was."""
        if self._appended:
            self._appended.clear()
            log.error("a group coordinator could not write and starts over", partition=str(self._leader))
            self._on_failed(self)

    # Timers

    def _schedule(self) -> None:
        """One timer for the whole shard: for its earliest deadline, never later."""
        deadline_ms = self.shard.next_deadline_ms()
        if deadline_ms is None:
            return
        if self._timer is not None:
            if self._timer_ms <= deadline_ms:
                return
            self._timer.cancel()
        self._timer_ms = deadline_ms
        delay_ms = max(deadline_ms - self._now_ms(), 0)
        self._timer = self._timers.call_later(delay_ms / 1000 + 0.001, self._expire)

    def _expire(self) -> None:
        self._timer = None
        now_ms = self._now_ms()
        deadline_ms = self.shard.next_deadline_ms()
        while deadline_ms is not None and deadline_ms <= now_ms:
            self._runtime.submit(lambda shard: expire(shard, now_ms), _give)
            deadline_ms = self.shard.next_deadline_ms()
        self._schedule()

    # Loading

    def _load(self) -> None:
        partition_log = self._leader.log
        offset, end = partition_log.start_offset, partition_log.end_offset
        while offset < end:
            piece = partition_log.read(offset, READ_BYTES, end)
            if piece is None:
                return
            data = memoryview(piece.read())
            for position, header in iter_headers(data):
                found = _records_of(data, position, header)
                offset = header.next_offset
                if found:
                    self._runtime.load(found, header.last_offset, LeaderEpoch(header.leader_epoch))


def _give(replies: Sequence[Reply] | ProtocolError) -> None:
    """Answer those who waited. A refused command has nobody to tell: its replies were never made."""
    if not isinstance(replies, ProtocolError):
        for waiter, response in replies:
            waiter.answer(response)


def _batch(written: Sequence[Record], now_ms: int) -> bytes:
    """Records of one result as one batch: plain, of a transaction, or the marker that ends one."""
    first = written[0]
    if isinstance(first, EndTransaction):
        assert len(written) == 1
        marker = control.EndTransaction(first.committed, first.coordinator_epoch)
        return control.build_end_transaction(marker, first.producer_id, first.producer_epoch, now_ms)
    return records.build_batch(
        [
            records.Record(position, now_ms, encode_key(record), encode_value(record))
            for position, record in enumerate(written)
            if isinstance(record, GroupRecord)
        ],
        producer_id=first.producer_id,
        producer_epoch=first.producer_epoch,
        # Transactional offsets are written by the coordinator, not by the producer: they have no sequence.
        base_sequence=-1,
        is_transactional=first.producer_id != NO_PRODUCER,
    )


def _records_of(data: memoryview, position: int, header: BatchHeader) -> list[Record]:
    producer_id, producer_epoch = ProducerId(header.producer_id), ProducerEpoch(header.producer_epoch)
    found: list[Record] = []
    for record in records.read_records(data, position):
        if header.is_control:
            if control.read_control_type(record) in (control.ControlType.COMMIT, control.ControlType.ABORT):
                marker = control.read_end_transaction(record)
                found.append(EndTransaction(producer_id, producer_epoch, marker.coordinator_epoch, marker.is_commit))
            continue
        owner = producer_id if header.is_transactional else NO_PRODUCER
        decoded = decode_record(record.key, record.value, owner, producer_epoch)
        if decoded is not None:
            found.append(decoded)
    return found
