"""One partition of `__transaction_state` as a coordinator: its machine, its log as the journal, its timer.

Made by the transaction coordinator when this broker begins to lead the partition, thrown away when it no longer does.
Decides nothing about transactions: that is `transactions/`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar

from tidelog.broker.logs import log
from tidelog.broker.transaction_markers import MarkerSender, Timer, Timers
from tidelog.machine.runtime import Result, Runtime
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import LeaderEpoch, Offset, ProducerId
from tidelog.replica.leader import PartitionLeader
from tidelog.transactions.calls import Again, Ending, Outcome, Step
from tidelog.transactions.codec import decode_record, encode_key, encode_value
from tidelog.transactions.end import complete
from tidelog.transactions.expiry import expire, loaded
from tidelog.transactions.records import TransactionRecord
from tidelog.transactions.shard import TransactionShard
from tidelog.wire import records
from tidelog.wire.batch import iter_headers

ReplyT = TypeVar("ReplyT")
# A command gets the shard, a fresh producer id when it has asked for one, and the time.
Command = Callable[[TransactionShard, ProducerId | None, int], Outcome[ReplyT]]
ProducerIdSource = Callable[[Callable[[ProducerId | ProtocolError], None]], None]
SenderFactory = Callable[[Ending, Callable[[Ending], None]], MarkerSender]

READ_BYTES: Final = 4 * 1024 * 1024
# How long a request waits for the markers of a transaction that ends. Then the end of it is answered, which is decided
# whatever happens, and everybody else is told to come again.
MARKERS_WAIT_MS: Final = 500


class TransactionShardHost:
    """Runs commands on one shard, and answers when what they wrote is replicated."""

    def __init__(
        self,
        leader: PartitionLeader,
        build: Callable[[], TransactionShard],
        now_ms: Callable[[], int],
        timers: Timers,
        take_producer_id: ProducerIdSource,
        make_sender: SenderFactory,
        on_failed: Callable[[TransactionShardHost], None],
    ) -> None:
        self._leader = leader
        self.now_ms = now_ms
        self.timers = timers
        self.take_producer_id = take_producer_id
        self._make_sender = make_sender
        self._on_failed = on_failed
        self._timer: Timer | None = None
        self._timer_ms = 0
        # The ends of batches that are staged or written, and not known to be replicated.
        self._appended: deque[Offset] = deque()
        self._senders: dict[str, MarkerSender] = {}
        # Requests that wait for the markers of a transaction, by transactional id.
        self.waiting: dict[str, list[_Request[Any]]] = {}
        self._runtime: Runtime[TransactionShard, TransactionRecord] = Runtime(build, self, ErrorCode.NOT_COORDINATOR)

    @property
    def shard(self) -> TransactionShard:
        return self._runtime.machine

    def start(self) -> None:
        """Load what the log holds, lead, and carry on with ends that were decided."""
        self._load()
        leader = self._leader
        self._runtime.lead(leader.epoch, leader.log.end_offset)
        self._runtime.submit(lambda shard: loaded(shard, self.now_ms()), self._carry_on)
        self._schedule()

    def stop(self) -> None:
        """Another broker leads now: who waits is told so."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for sender in self._senders.values():
            sender.cancel()
        self._senders.clear()
        self._runtime.resign()
        waiting, self.waiting = self.waiting, {}
        for requests in waiting.values():
            for request in requests:
                request.give_up(ProtocolError(ErrorCode.NOT_COORDINATOR))

    def submit(
        self,
        transactional_id: str,
        command: Command[ReplyT],
        answer: Callable[[ReplyT | ProtocolError], None],
    ) -> None:
        """Run a command on one transactional id; `answer` gets its reply, or the error, when all of it is safe."""
        _Request(self, transactional_id, command, answer).run(None)

    def ask(
        self,
        query: Callable[[TransactionShard], Result[TransactionRecord, ReplyT]],
        answer: Callable[[ReplyT | ProtocolError], None],
    ) -> None:
        """Run a command that concerns no single transaction."""
        self._runtime.submit(query, answer)
        self._schedule()

    def deliver(self, ending: Ending) -> None:
        """Have the markers of a decided transaction written."""
        sender = self._make_sender(ending, self._delivered)
        self._senders[ending.transactional_id] = sender
        sender.send()

    # The journal of the runtime.

    def append(self, written: Sequence[TransactionRecord], epoch: LeaderEpoch) -> Offset:
        now_ms = self.now_ms()
        batch = records.build_batch(
            [
                records.Record(position, now_ms, encode_key(record), encode_value(record))
                for position, record in enumerate(written)
            ]
        )
        end = self._leader.stage_own(batch, self)
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
            log.error("a transaction coordinator could not write and starts over", partition=str(self._leader))
            self._on_failed(self)

    # Ends of transactions

    def _carry_on(self, endings: list[Ending] | ProtocolError) -> None:
        if not isinstance(endings, ProtocolError):
            for ending in endings:
                self.deliver(ending)

    def _delivered(self, ending: Ending) -> None:
        self._senders.pop(ending.transactional_id, None)
        self.ask(lambda shard: complete(shard, ending, self.now_ms()), _ignore)
        for request in self.waiting.pop(ending.transactional_id, ()):
            request.ended()

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
        delay_ms = max(deadline_ms - self.now_ms(), 0)
        self._timer = self.timers.call_later(delay_ms / 1000 + 0.001, self._expire)

    def _expire(self) -> None:
        self._timer = None
        now_ms = self.now_ms()
        deadline_ms = self.shard.next_deadline_ms()
        while deadline_ms is not None and deadline_ms <= now_ms:
            self._runtime.submit(lambda shard: expire(shard, now_ms), self._expired)
            deadline_ms = self.shard.next_deadline_ms()
        self._schedule()

    def _expired(self, outcome: Step[None] | ProtocolError) -> None:
        if isinstance(outcome, ProtocolError) or outcome.ending is None:
            return
        log.info("a transaction has timed out and is aborted", transactional_id=outcome.ending.transactional_id)
        self.deliver(outcome.ending)

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
                offset = header.next_offset
                if header.is_control:
                    continue
                decoded = [decode_record(record.key, record.value) for record in records.read_records(data, position)]
                found = [record for record in decoded if record is not None]
                self._runtime.load(found, header.last_offset, LeaderEpoch(header.leader_epoch))


class _Request(Generic[ReplyT]):
    """One command on its way to a reply: given again with a producer id, or when a transaction has ended."""

    __slots__ = ("_answer", "_command", "_host", "_may_wait", "_reply", "_timer", "_transactional_id")

    def __init__(
        self,
        host: TransactionShardHost,
        transactional_id: str,
        command: Command[ReplyT],
        answer: Callable[[ReplyT | ProtocolError], None],
    ) -> None:
        self._host = host
        self._transactional_id = transactional_id
        self._command = command
        self._answer = answer
        self._reply: ReplyT | ProtocolError = ProtocolError(
            ErrorCode.CONCURRENT_TRANSACTIONS, "The end of a transaction is under way."
        )
        self._may_wait = True
        self._timer: Timer | None = None

    def run(self, fresh_id: ProducerId | None) -> None:
        self._host.ask(lambda shard: self._command(shard, fresh_id, self._host.now_ms()), self._stepped)

    def ended(self) -> None:
        """The markers that it waited for are written."""
        self._stop_timer()
        if isinstance(self._reply, ProtocolError):
            self.run(None)
        else:
            self._answer(self._reply)

    def give_up(self, error: ProtocolError) -> None:
        """There will be no more: an end that was decided is answered as such, anything else by the error."""
        self._stop_timer()
        self._answer(error if isinstance(self._reply, ProtocolError) else self._reply)

    def _stepped(self, outcome: Step[ReplyT] | ProtocolError) -> None:
        if isinstance(outcome, ProtocolError):
            if outcome.code is ErrorCode.CONCURRENT_TRANSACTIONS and self._may_wait:
                self._wait()
            else:
                self._answer(outcome)
            return
        reply = outcome.reply
        if reply is Again.WITH_PRODUCER_ID:
            self._host.take_producer_id(self._took)
            return
        if outcome.ending is None:
            assert not isinstance(reply, Again)
            self._answer(reply)
            return
        if not isinstance(reply, Again):
            self._reply = reply
        self._wait()
        self._host.deliver(outcome.ending)

    def _took(self, fresh_id: ProducerId | ProtocolError) -> None:
        if isinstance(fresh_id, ProtocolError):
            # The producer comes again; it does not matter where the block of ids is held up.
            self._answer(ProtocolError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        else:
            self.run(fresh_id)

    def _wait(self) -> None:
        """Wait once, and not for long: a partition without a leader may hold markers up for any time."""
        self._may_wait = False
        self._timer = self._host.timers.call_later(MARKERS_WAIT_MS / 1000, self._timed_out)
        self._host.waiting.setdefault(self._transactional_id, []).append(self)

    def _timed_out(self) -> None:
        self._timer = None
        waiting = self._host.waiting.get(self._transactional_id, [])
        if self in waiting:
            waiting.remove(self)
            if not waiting:
                del self._host.waiting[self._transactional_id]
        self._answer(self._reply)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _ignore(outcome: object) -> None:
    """Nobody waits for the record that all is complete: if it is lost, the markers are written once more."""
