"""One partition of `__consumer_offsets` as a coordinator: its machine, its log as the journal, its timer.

Made by the group coordinator when this broker begins to lead the partition, thrown away when it no longer does. Decides
nothing about groups: that is `groups/`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from tidelog.broker.partition_journal import PartitionJournal
from tidelog.broker.timers import DeadlineTimer, Timers
from tidelog.groups.api import sign_of_life
from tidelog.groups.attempt import Attempt
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
from tidelog.wire.batch import BatchHeader
from tidelog.wire.messages.heartbeat import HeartbeatRequest

ReplyT = TypeVar("ReplyT")


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
        self._now_ms = now_ms
        self._journal = PartitionJournal(leader, self._committed, lambda: on_failed(self))
        self._runtime: Runtime[GroupShard, Record] = Runtime(build, self, ErrorCode.NOT_COORDINATOR)
        self._deadline = DeadlineTimer(timers, now_ms, lambda: self.shard.next_deadline_ms(), self._expire)

    @property
    def shard(self) -> GroupShard:
        return self._runtime.machine

    def start(self) -> None:
        """Load what the log holds, then lead. A partition of groups is compacted, so this is not its whole history."""
        self._load()
        self._journal.lead(self._runtime)
        self.submit(loaded)

    def stop(self) -> None:
        """Another broker leads now: who waits is told so."""
        self._deadline.cancel()
        replies = self.shard.unload()
        self._runtime.resign()
        _give(replies)

    def metadata_changed(self, image: ClusterImage, *, topics_changed: bool) -> None:
        self.shard.metadata_changed(image, topics_changed=topics_changed)
        self._deadline.update()

    def sign_of_life(self, request: HeartbeatRequest) -> ErrorCode | None:
        """What to tell a member that beats, if that can be told at once: most are neither first nor last."""
        runtime = self._runtime
        if not runtime.is_settled:
            return None
        told = sign_of_life(runtime.machine, request, self._now_ms())
        self._deadline.update()
        return told

    def submit(
        self, command: Callable[[GroupShard, int], Outcome], refused: Callable[[ErrorCode], None] | None = None
    ) -> None:
        """Run a command whose replies go to those who wait, each when it is safe; `refused` if it was not even run."""
        self.attempt(Attempt(lambda shard: command(shard, self._now_ms())), refused)

    def attempt(self, attempt: Attempt, refused: Callable[[ErrorCode], None] | None = None) -> None:
        def answer(outcome: Sequence[Reply] | ProtocolError) -> None:
            replies = attempt.replies(outcome)
            if replies is not None:
                _give(replies)
            elif refused is not None and isinstance(outcome, ProtocolError):
                refused(outcome.code)

        self.ask(attempt, answer)

    def ask(
        self,
        command: Callable[[GroupShard], Result[Record, ReplyT]],
        answer: Callable[[ReplyT | ProtocolError], None],
    ) -> None:
        self._runtime.submit(command, answer)
        self._deadline.update()

    # The journal of the runtime.

    def append(self, written: Sequence[Record], epoch: LeaderEpoch) -> Offset:
        now_ms = self._now_ms()
        if written[0].producer_id != NO_PRODUCER:
            return self._journal.append(_transactional_batch(written, now_ms))
        return self._journal.append_shared(
            [
                (now_ms, encode_key(record), encode_value(record))
                for record in written
                if isinstance(record, GroupRecord)
            ]
        )

    def _committed(self, end: Offset) -> None:
        self._runtime.committed(end)
        self._deadline.update()

    def _expire(self, now_ms: int) -> None:
        attempt = Attempt(lambda shard: expire(shard, now_ms))
        self._runtime.submit(attempt, lambda outcome: _give(attempt.replies(outcome) or ()))

    def _load(self) -> None:
        for data, position, header in self._journal.batches():
            found = _records_of(data, position, header)
            if found:
                self._runtime.load(found, header.last_offset, LeaderEpoch(header.leader_epoch))


def _give(replies: Sequence[Reply]) -> None:
    """Answer those who waited."""
    for waiter, response in replies:
        waiter.answer(response)


def _transactional_batch(written: Sequence[Record], now_ms: int) -> bytes | bytearray:
    """Records of one result as one batch of a transaction, or the marker that ends one."""
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
        # They are written by the coordinator, not by the producer: they have no sequence.
        base_sequence=-1,
        is_transactional=True,
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
