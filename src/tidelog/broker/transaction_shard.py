"""One partition of `__transaction_state` as a coordinator: its machine, its log as the journal, its timer.

Made by the transaction coordinator when this broker begins to lead the partition, thrown away when it no longer does.
Decides nothing about transactions: that is `transactions/`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from tidelog.broker.known_forms import KnownForms
from tidelog.broker.local_end import Led, lone_leaders, write_markers
from tidelog.broker.logs import log
from tidelog.broker.marker_waits import MarkerWaits
from tidelog.broker.partition_journal import PartitionJournal
from tidelog.broker.timers import DeadlineTimer, Timer, Timers
from tidelog.broker.transaction_markers import MarkerSender
from tidelog.broker.transaction_request import Command, TransactionRequest
from tidelog.broker.turn import IsLate
from tidelog.machine.runtime import Result, Runtime
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import LeaderEpoch, Offset, ProducerEpoch, ProducerId, TopicPartition
from tidelog.replica.leader import PartitionLeader
from tidelog.transactions.batch_form import BatchForm
from tidelog.transactions.calls import Ending, Step
from tidelog.transactions.codec import decode_record, encode_key, encode_value
from tidelog.transactions.delivery import Delivery
from tidelog.transactions.end import markers_written, usual_end, went_on, write_down
from tidelog.transactions.expiry import expire, loaded
from tidelog.transactions.partitions import add_partitions, is_found_again, usual_begin
from tidelog.transactions.records import TransactionRecord
from tidelog.transactions.shard import TransactionShard
from tidelog.transactions.states import ENDING
from tidelog.transactions.transaction import EPOCH_BUMPING_VERSION, Producer, Transaction
from tidelog.wire import records
from tidelog.wire.small_batch import build_one_record_batch, build_plain_batch

ReplyT = TypeVar("ReplyT")
ProducerIdSource = Callable[[Callable[[ProducerId | ProtocolError], None]], None]
# For so long a leader may know more than it has written down: that an end is complete, that the next transaction has
# begun. A producer in a loop is quicker, and then neither is ever written.
WRITE_DOWN_AFTER_SECONDS: Final = 0.1
# Larger transactions are encoded anew each time: forms stay small, and one that grows is not learned at every step.
FORM_PARTITIONS_MAX: Final = 16
SenderFactory = Callable[[Ending, Callable[[Delivery], None]], MarkerSender]


class TransactionShardHost:
    """Runs commands on one shard, and answers when what they wrote is replicated."""

    def __init__(
        self,
        leader: PartitionLeader,
        build: Callable[[], TransactionShard],
        now_ms: Callable[[], int],
        timers: Timers,
        later: Callable[[IsLate], None],
        take_producer_id: ProducerIdSource,
        led: Led,
        make_sender: SenderFactory,
        forms: KnownForms[str, BatchForm],
        on_failed: Callable[[TransactionShardHost], None],
    ) -> None:
        self.now_ms = now_ms
        self.take_producer_id = take_producer_id
        self._led = led
        self._make_sender = make_sender
        # How the record of a transactional id was last written, as others of it will be.
        self._forms = forms
        self._timers = timers
        self._later = later
        # Ends that are decided, and whose markers this turn writes: who leads the partitions, and since when.
        self._late_ends: list[tuple[str, Transaction, list[PartitionLeader], int]] = []
        self._write_down_timer: Timer | None = None
        # Ends whose markers are on their way elsewhere, too, by transactional id.
        self._senders: dict[str, MarkerSender] = {}
        # Requests that wait for the markers of a transaction, by transactional id.
        self._waiting: MarkerWaits[TransactionRequest[Any]] = MarkerWaits(timers, now_ms)
        self._journal = PartitionJournal(leader, self._committed, lambda: on_failed(self))
        self._runtime: Runtime[TransactionShard, TransactionRecord] = Runtime(build, self, ErrorCode.NOT_COORDINATOR)
        self._deadline = DeadlineTimer(timers, now_ms, lambda: self.shard.next_deadline_ms(), self._expire)

    @property
    def shard(self) -> TransactionShard:
        return self._runtime.machine

    def start(self) -> None:
        """Load what the log holds, lead, and carry on with ends that were decided."""
        self._load()
        self._journal.lead(self._runtime)
        self._submit(lambda shard: loaded(shard, self.now_ms()), self._carry_on)

    def stop(self) -> None:
        """Another broker leads now: who waits is told so."""
        self._deadline.cancel()
        if self._write_down_timer is not None:
            self._write_down_timer.cancel()
            self._write_down_timer = None
        for sender in self._senders.values():
            sender.cancel()
        self._senders.clear()
        self._late_ends.clear()
        self._runtime.resign()
        for request in self._waiting.give_up():
            request.give_up(ProtocolError(ErrorCode.NOT_COORDINATOR))

    def submit(
        self,
        transactional_id: str,
        command: Command[ReplyT],
        answer: Callable[[ReplyT | ProtocolError], None],
    ) -> None:
        """Run a command on one transactional id; `answer` gets its reply, or the error, when all of it is safe."""
        TransactionRequest(self, transactional_id, command, answer).run(None)

    def ask(
        self,
        query: Callable[[TransactionShard], Result[TransactionRecord, ReplyT]],
        answer: Callable[[ReplyT | ProtocolError], None],
    ) -> None:
        """Run a command, and answer when what it wrote is safe: now, where this broker's own write makes it so."""
        if not self.runs_at_once:
            self._submit(query, answer)
            return
        outcome: ReplyT | ProtocolError
        try:
            outcome = self.run_at_once(query)
        except ProtocolError as error:
            outcome = error
        answer(outcome)

    @property
    def runs_at_once(self) -> bool:
        """Whether this broker's own write makes records safe, and nobody waits for anything that was written before."""
        return self._runtime.is_settled and self._journal.writes_at_once

    def run_at_once(self, query: Callable[[TransactionShard], Result[TransactionRecord, ReplyT]]) -> ReplyT:
        """Run a command while the host `runs_at_once`; gives its reply. Raises ProtocolError; then nothing is done."""
        runtime = self._runtime
        reply = runtime.run_at_once(query, self._append_now)
        if runtime.machine.has_new_deadline:
            self._update_deadline()
        return reply

    # What nearly all transactions of the second protocol are, in fewer steps.

    def begin_at_once(self, transactional_id: str, producer: Producer, partition: TopicPartition, now_ms: int) -> bool:
        """Add a partition to the transaction of a producer, which may begin with it. False when it is not added now."""
        if not self.runs_at_once:
            return False
        shard = self._runtime.machine
        begun = usual_begin(shard, transactional_id, producer, partition, now_ms)
        if begun is not None and is_found_again(shard, transactional_id, partition):
            shard.begin_unwritten(transactional_id, begun)
            if shard.has_new_deadline:
                self._update_deadline()
            return True
        try:
            if begun is not None:
                self._write_at_once(transactional_id, begun)
            else:
                partitions = frozenset((partition,))
                self.run_at_once(
                    lambda shard: add_partitions(
                        shard, transactional_id, producer, partitions, EPOCH_BUMPING_VERSION, now_ms
                    )
                )
        except ProtocolError:
            return False
        return True

    def end_at_once(self, transactional_id: str, producer: Producer, committed: bool) -> Transaction | None:
        """End a transaction whose markers this turn writes, before anybody can look for them.

        None, and nothing is done, for all others. Raises ProtocolError when it cannot be written.
        """
        if not self.runs_at_once:
            return None
        now_ms = self.now_ms()
        prepared = usual_end(self._runtime.machine, transactional_id, producer, committed, now_ms)
        if prepared is None:
            return None
        leaders = lone_leaders(self._led, prepared.partitions)
        if leaders is None:
            return None
        self._write_at_once(transactional_id, prepared)
        self._end_late(transactional_id, prepared, leaders, now_ms)
        return prepared

    def _write_at_once(self, transactional_id: str, transaction: Transaction) -> None:
        record = TransactionRecord(transactional_id, transaction)
        batch = self._encoded_one(record, transaction)
        runtime = self._runtime
        runtime.written_at_once((record,), self._journal.append_now(batch, transaction.updated_ms))
        if runtime.machine.has_new_deadline:
            self._update_deadline()

    def _submit(
        self,
        query: Callable[[TransactionShard], Result[TransactionRecord, ReplyT]],
        answer: Callable[[ReplyT | ProtocolError], None],
    ) -> None:
        self._runtime.submit(query, answer)
        if self._runtime.machine.has_new_deadline:
            self._update_deadline()

    def _update_deadline(self) -> None:
        self._runtime.machine.has_new_deadline = False
        self._deadline.update()

    def write_now(self) -> None:
        """Do not wait for the turn's end, unless other brokers or the disk are to be waited for anyway."""
        self._journal.write_now()

    # Ends of transactions

    def is_ending(self, transactional_id: str) -> bool:
        """Whether the end of a transaction is decided, and markers are missing."""
        transaction = self.shard.newest(transactional_id)
        return transaction is not None and transaction.state in ENDING

    def wait(self, transactional_id: str, request: TransactionRequest[Any]) -> None:
        """Keep a request until the markers of a transaction are written."""
        self._waiting.add(transactional_id, request)

    def deliver(self, ending: Ending, request: TransactionRequest[Any] | None = None) -> bool:
        """Have the markers of a decided transaction written.

        Whether this turn does so, before anybody can look for them; otherwise the request, if any, waits for them.
        """
        transactional_id = ending.transactional_id
        leaders = lone_leaders(self._led, ending.partitions)
        if leaders is not None:
            self._end_late(transactional_id, self.shard.transactions[transactional_id], leaders, self.now_ms())
            return True
        if request is not None:
            self.wait(transactional_id, request)
        self._sender(ending).send()
        return False

    def _end_late(
        self, transactional_id: str, decided: Transaction, leaders: list[PartitionLeader], now_ms: int
    ) -> None:
        if not self._late_ends:
            self._later(self)
        self._late_ends.append((transactional_id, decided, leaders, now_ms))

    def do_late(self) -> None:
        """The answers of the turn have left: write the markers that it promised."""
        # One by one: who is woken by the first may have the host stop, which promises nothing any more.
        while self._late_ends:
            transactional_id, decided, leaders, now_ms = self._late_ends.pop(0)
            if write_markers(decided, self.shard.epoch, leaders, now_ms):
                self._delivered(transactional_id, (decided.producer_id, decided.producer_epoch), now_ms)
            else:
                self._sender(self.shard.ending_of(transactional_id, decided)).send_later()

    def _sender(self, ending: Ending) -> MarkerSender:
        sender = self._make_sender(ending, self._sent)
        self._senders[ending.transactional_id] = sender
        return sender

    def _sent(self, delivery: Delivery) -> None:
        ending = delivery.ending
        if not delivery.gone_on:
            self._senders.pop(ending.transactional_id, None)
            self._delivered(ending.transactional_id, ending.producer, self.now_ms())
            return

        def written(outcome: ProtocolError | None) -> None:
            if outcome is None:
                self._senders.pop(ending.transactional_id, None)
                self._wake(ending.transactional_id)
            elif outcome.code is not ErrorCode.NOT_COORDINATOR:
                # The log cannot be written now.
                self._sender(ending).send_later()

        partitions, now_ms = frozenset(delivery.gone_on), self.now_ms()
        self._submit(lambda shard: went_on(shard, ending, partitions, now_ms), written)

    def _delivered(self, transactional_id: str, marked: tuple[ProducerId, ProducerEpoch], now_ms: int) -> None:
        markers_written(self._runtime.machine, transactional_id, marked, now_ms)
        if self._write_down_timer is None:
            self._write_down_timer = self._timers.call_later(WRITE_DOWN_AFTER_SECONDS, self._write_down)
        self._wake(transactional_id)

    def _wake(self, transactional_id: str) -> None:
        for request in self._waiting.ended(transactional_id):
            request.ended()

    def _write_down(self) -> None:
        self._write_down_timer = None
        self._submit(write_down, lambda _: None)
        if self.shard.completed or self.shard.unwritten:
            # The log cannot be written now.
            self._write_down_timer = self._timers.call_later(WRITE_DOWN_AFTER_SECONDS, self._write_down)

    def _carry_on(self, endings: list[Ending] | ProtocolError) -> None:
        if not isinstance(endings, ProtocolError):
            for ending in endings:
                self.deliver(ending)

    # The journal of the runtime.

    def append(self, written: Sequence[TransactionRecord], epoch: LeaderEpoch) -> Offset:
        return self._journal.append(self._encoded(written))

    def _append_now(self, written: Sequence[TransactionRecord]) -> Offset:
        (record,) = written
        assert record.transaction is not None, "ids are forgotten by a timer, which can wait"
        batch = self._encoded_one(record, record.transaction)
        return self._journal.append_now(batch, record.transaction.updated_ms)

    def _encoded(self, written: Sequence[TransactionRecord]) -> bytearray:
        if len(written) == 1 and (transaction := written[0].transaction) is not None:
            return self._encoded_one(written[0], transaction)
        now_ms = self.now_ms()
        return build_plain_batch([(now_ms, encode_key(record), encode_value(record)) for record in written])

    def _encoded_one(self, record: TransactionRecord, transaction: Transaction) -> bytearray:
        """The batch of a record that is not a tombstone, with the time at which its transaction was updated."""
        if 0 < len(transaction.partitions) <= FORM_PARTITIONS_MAX:
            form = self._forms.get(record.transactional_id)
            batch = None if form is None else form.batch(transaction)
            return batch or self._learn(record, transaction)
        return build_one_record_batch(encode_key(record), encode_value(record), transaction.updated_ms)

    def _learn(self, record: TransactionRecord, transaction: Transaction) -> bytearray:
        """Encode a record of a form that its transactional id did not have last."""
        form = BatchForm(record, transaction)
        if self._forms.has_room(transaction.updated_ms):
            self._forms[record.transactional_id] = form
        return form.first()

    def _committed(self, end: Offset) -> None:
        self._runtime.committed(end)

    def _load(self) -> None:
        for data, position, header in self._journal.batches():
            if header.is_control:
                continue
            decoded = [decode_record(record.key, record.value) for record in records.read_records(data, position)]
            found = [record for record in decoded if record is not None]
            self._runtime.load(found, header.last_offset, LeaderEpoch(header.leader_epoch))

    # Time-outs

    def _expire(self, now_ms: int) -> None:
        self._runtime.submit(lambda shard: expire(shard, now_ms), self._expired)

    def _expired(self, outcome: Step[None] | ProtocolError) -> None:
        if isinstance(outcome, ProtocolError) or outcome.ending is None:
            return
        log.info("a transaction has timed out and is aborted", transactional_id=outcome.ending.transactional_id)
        self.deliver(outcome.ending)
