"""A transaction coordinator under a clock of the test's own: a real runtime over a journal that keeps the very bytes.

Markers are delivered by hand (`deliver`), or at once after each command. `reload` builds the coordinator anew from the
bytes in the journal, as a broker does that takes over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from tidelog.machine.runtime import Result, Runtime
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import LeaderEpoch, Offset, PartitionIndex, ProducerEpoch, ProducerId, TopicName, TopicPartition
from tidelog.transactions.calls import Again, Ending, Outcome
from tidelog.transactions.codec import decode_record, encode_key, encode_value
from tidelog.transactions.end import end_transaction, markers_written, went_on, write_down
from tidelog.transactions.expiry import expire, loaded
from tidelog.transactions.init import Asked, Initialized, init_producer
from tidelog.transactions.partitions import add_partitions, is_found_again, usual_begin, verify_partitions
from tidelog.transactions.records import TransactionRecord
from tidelog.transactions.settings import Settings
from tidelog.transactions.shard import TransactionShard
from tidelog.transactions.transaction import EPOCH_BUMPING_VERSION, FIRST_VERSION, Producer, Transaction

START_MS = 1_700_000_000_000
ID = "payments"
TIMEOUT_MS = 60_000
FIRST_PRODUCER_ID = 7000

ReplyT = TypeVar("ReplyT")


def partition(index: int = 0, topic: str = "orders") -> TopicPartition:
    return TopicPartition(TopicName(topic), PartitionIndex(index))


def producer(producer_id: int, epoch: int) -> Producer:
    return Producer(ProducerId(producer_id), ProducerEpoch(epoch))


class TransactionDesk:
    """One coordinator at work, with producer ids in the order in which they are asked for."""

    def __init__(self, settings: Settings = Settings(), *, delivers: bool = True) -> None:
        self.settings = settings
        self.delivers = delivers
        self.now_ms = START_MS
        self.batches: list[list[tuple[bytes, bytes | None]]] = []
        # What was decided and not yet delivered, in that order.
        self.endings: list[Ending] = []
        self.delivered: list[Ending] = []
        self.next_id = FIRST_PRODUCER_ID
        # Whether the journal cannot be written, as on a full disk.
        self.is_full = False
        self._end = 0
        self._epoch = 0
        self._lead()

    @property
    def shard(self) -> TransactionShard:
        return self._runtime.machine

    def transaction(self, transactional_id: str = ID) -> Transaction:
        transaction = self.shard.newest(transactional_id)
        assert transaction is not None, f"{transactional_id} is not known"
        return transaction

    # The journal of the runtime.

    def append(self, records: Sequence[TransactionRecord], epoch: LeaderEpoch) -> Offset:
        if self.is_full:
            raise ProtocolError(ErrorCode.KAFKA_STORAGE_ERROR)
        self.batches.append([(encode_key(record), encode_value(record)) for record in records])
        self._end += len(records)
        return Offset(self._end)

    def reload(self) -> None:
        """Another broker takes over: all that was not written is gone, what was decided is delivered again."""
        self.endings.clear()
        self._lead()

    def _lead(self) -> None:
        self._runtime: Runtime[TransactionShard, TransactionRecord] = Runtime(
            lambda: TransactionShard(self.settings), self, ErrorCode.NOT_COORDINATOR
        )
        offset = -1
        for batch in self.batches:
            offset += len(batch)
            records = [record for record in (decode_record(*pair) for pair in batch) if record is not None]
            self._runtime.load(records, Offset(offset), LeaderEpoch(self._epoch))
        self._epoch += 1
        self._runtime.lead(LeaderEpoch(self._epoch), Offset(self._end))
        self.endings += self._submit(lambda shard: loaded(shard, self.now_ms))
        if self.delivers:
            self.deliver()

    # Commands

    def init(
        self,
        transactional_id: str = ID,
        has: Producer | None = None,
        timeout_ms: int = TIMEOUT_MS,
        **wishes: bool,
    ) -> Initialized:
        asked = Asked(transactional_id, timeout_ms, has, **wishes)
        return self.run(lambda shard, fresh_id, now_ms: init_producer(shard, asked, fresh_id, now_ms))

    def start(self, transactional_id: str = ID) -> Producer:
        """A producer that has just been initialised."""
        return self.init(transactional_id).producer

    def skip_to_epoch(self, epoch: int, transactional_id: str = ID) -> Producer:
        """Go through the epochs of a producer id without doing it one by one."""
        aged = msgspec.structs.replace(self.transaction(transactional_id), producer_epoch=ProducerEpoch(epoch))
        return self._submit(lambda shard: Result([TransactionRecord(transactional_id, aged)], aged.producer))

    def add(
        self, who: Producer, *indexes: int, transactional_id: str = ID, version: int = EPOCH_BUMPING_VERSION
    ) -> None:
        partitions = frozenset(partition(index) for index in indexes or (0,))
        self.run(lambda shard, _, now_ms: add_partitions(shard, transactional_id, who, partitions, version, now_ms))

    def begin(self, who: Producer, index: int = 0, transactional_id: str = ID) -> bool:
        """Begin with a partition as the short way does; says whether a record was needed for it."""
        begun = usual_begin(self.shard, transactional_id, who, partition(index), self.now_ms)
        assert begun is not None
        if is_found_again(self.shard, transactional_id, partition(index)):
            self.shard.begin_unwritten(transactional_id, begun)
            return False
        self._submit(lambda _: Result([TransactionRecord(transactional_id, begun)], None))
        return True

    def go_on(self, *indexes: int) -> None:
        """Markers are written again, and these partitions refuse theirs: the next transaction has begun there."""
        (ending,) = self.endings
        self.endings.clear()
        partitions = frozenset(map(partition, indexes))
        self._submit(lambda shard: went_on(shard, ending, partitions, self.now_ms))

    def verify(self, who: Producer, *indexes: int, transactional_id: str = ID) -> list[ErrorCode]:
        partitions = [partition(index) for index in indexes]
        errors = self.run(
            lambda shard, _, now_ms: verify_partitions(shard, transactional_id, who, frozenset(partitions))
        )
        return [errors[each] for each in partitions]

    def end(
        self,
        who: Producer,
        *,
        commit: bool = True,
        transactional_id: str = ID,
        version: int = EPOCH_BUMPING_VERSION,
    ) -> Producer:
        return self.run(
            lambda shard, fresh_id, now_ms: end_transaction(
                shard, transactional_id, who, commit, version, fresh_id, now_ms
            )
        )

    def end_first(self, who: Producer, *, commit: bool = True) -> Producer:
        """End by the first protocol."""
        return self.end(who, commit=commit, version=FIRST_VERSION)

    def add_first(self, who: Producer, *indexes: int) -> None:
        """Add by the first protocol."""
        self.add(who, *indexes, version=FIRST_VERSION)

    def deliver(self) -> None:
        """All markers that are due are written."""
        while self.endings:
            ending = self.endings.pop(0)
            self.delivered.append(ending)
            markers_written(self.shard, ending.transactional_id, ending.producer, self.now_ms)

    def write_down(self) -> None:
        """What this leader alone knows is written down, as it is after a while."""
        self._submit(write_down)

    def pass_time(self, milliseconds: int) -> None:
        """Let time pass, with every deadline at its moment."""
        until_ms = self.now_ms + milliseconds
        while True:
            deadline_ms = self.shard.next_deadline_ms()
            if deadline_ms is None or deadline_ms > until_ms:
                break
            self.now_ms = max(self.now_ms, deadline_ms)
            self.run(lambda shard, _, now_ms: expire(shard, now_ms))
        self.now_ms = until_ms

    def run(self, command: Callable[[TransactionShard, ProducerId | None, int], Outcome[ReplyT]]) -> ReplyT:
        """Run a command to its reply, as the edge does: with a producer id, or again after the end that it began."""
        step = self._submit(lambda shard: command(shard, None, self.now_ms))
        if step.reply is Again.WITH_PRODUCER_ID:
            self.next_id += 1
            step = self._submit(lambda shard: command(shard, ProducerId(self.next_id), self.now_ms))
        if step.ending is not None:
            self.endings.append(step.ending)
            if self.delivers:
                self.deliver()
        if step.reply is Again.WHEN_ENDED:
            if not self.delivers:
                raise ProtocolError(ErrorCode.CONCURRENT_TRANSACTIONS)
            return self.run(command)
        assert not isinstance(step.reply, Again)
        return step.reply

    def _submit(self, query: Callable[[TransactionShard], Result[TransactionRecord, ReplyT]]) -> ReplyT:
        replies: list[ReplyT | ProtocolError] = []
        self._runtime.submit(query, replies.append)
        self._runtime.committed(Offset(self._end))
        (reply,) = replies
        if isinstance(reply, ProtocolError):
            raise reply
        return reply
