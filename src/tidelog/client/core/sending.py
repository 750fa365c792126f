"""Which batches go to which broker now, and what happens to each when its answer comes, or none.

The producer's engine asks `requests` after everything that happened, sends what it gives, and reports the end of each;
all choices of order, retry, sequence and failure are made here. Knows the time only as it is told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, assert_never

from tidelog.client.core.identity import ProducerIdentity, take_number_back
from tidelog.client.core.lines import Line, Lines
from tidelog.client.core.metadata import ClusterView, Node, Topic
from tidelog.client.core.options import ACKS_NONE, ProducerOptions
from tidelog.client.core.pending import Acknowledged, Batch
from tidelog.client.core.produce_answers import (
    Outcome,
    OutOfSequence,
    Refused,
    TooLarge,
    TryAgain,
    newest_version,
    outcomes,
    produce_request,
)
from tidelog.client.core.record_encoder import encode_record
from tidelog.client.errors import ClientError, DeliveryExpired, ProducerFenced, Rejected
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_EPOCH, NO_OFFSET, NodeId, TopicName, TopicPartition
from tidelog.wire.batch import MAGIC, NO_SEQUENCE, TRANSACTIONAL_FLAG, BatchHeader
from tidelog.wire.compression import compress
from tidelog.wire.messages.produce import ProduceRequest, ProduceResponse
from tidelog.wire.records import read_records, seal_in_parts

MILLISECONDS: Final = 1000.0
# What a request takes beside its batches, with room to spare.
REQUEST_OVERHEAD_BYTES: Final = 512


@dataclass(frozen=True, slots=True)
class ToSend:
    """One request for one broker."""

    node: Node
    request: ProduceRequest
    batches: tuple[Batch, ...]
    topics: Mapping[TopicName, Topic]
    version_max: int | None


@dataclass(slots=True)
class Plan:
    """What is to be done now, and when to look again."""

    requests: list[ToSend] = field(default_factory=list)
    # Topics whose leaders are not known.
    unknown: set[TopicName] = field(default_factory=set)
    wake_at: float | None = None
    # A batch waits for a producer id.
    needs_identity: bool = False
    # Partitions to which a transaction has to be told before they are written to.
    to_add: set[TopicPartition] = field(default_factory=set)

    def wake(self, at: float) -> None:
        if self.wake_at is None or at < self.wake_at:
            self.wake_at = at


class TransactionGate:
    """What the sender asks about a transaction. Without one, everything may be sent."""

    transactional_id: str | None = None
    implicit_add = False

    def may_send(self, partition: TopicPartition) -> bool:
        return True

    def failed(self, error: ClientError) -> None:
        """A batch of the transaction was given up."""


class Sender:
    """All decisions about batches that are complete."""

    def __init__(
        self,
        options: ProducerOptions,
        lines: Lines,
        on_settled: Callable[[Batch], None],
        transaction: TransactionGate | None = None,
    ) -> None:
        self.identity: ProducerIdentity | None = ProducerIdentity() if options.idempotent else None
        self._options = options
        self._lines = lines
        self._on_settled = on_settled
        self._transaction = transaction or TransactionGate()
        self._linger_s = options.linger_ms / MILLISECONDS
        self._expiry_s = options.delivery_timeout_ms / MILLISECONDS
        self._backoff_s = options.retry_backoff_ms / MILLISECONDS
        self._in_flight: dict[NodeId, int] = {}

    def requests(self, view: ClusterView, now: float, flushing: bool = False) -> Plan:
        """Everything that may be sent now. What it gives counts as sent."""
        plan = Plan()
        self._expire(now, plan)
        self._bump_if_needed()
        while True:
            chosen = self._choose(view, now, flushing, plan)
            if not chosen:
                return plan
            for node, batches in chosen.items():
                plan.requests.append(self._request(node, batches, view))

    def answered(self, sent: ToSend, answer: ProduceResponse | None, now: float) -> set[TopicName]:
        """A request has come to its end. Gives the topics whose leaders have to be looked up again.

        No answer at all is the success of acks=0.
        """
        self._landed(sent)
        if answer is None:
            for batch in sent.batches:
                self._end(batch, Acknowledged(NO_OFFSET))
            return set()
        results = outcomes(answer, {topic.id: name for name, topic in sent.topics.items()})
        stale: set[TopicName] = set()
        for batch in sent.batches:
            missing = TryAgain(Rejected(ErrorCode.UNKNOWN_SERVER_ERROR, "The broker did not answer for a batch."))
            outcome = results.get(batch.partition, missing)
            if isinstance(outcome, TryAgain):
                stale.add(batch.partition.topic)
            self._conclude(batch, outcome, now)
        return stale

    def lost(self, sent: ToSend, error: ClientError, now: float) -> set[TopicName]:
        """No answer came: nobody knows whether it arrived. Only the same bytes again are safe."""
        self._landed(sent)
        for batch in sent.batches:
            self._retry(batch, error, now)
        return {batch.partition.topic for batch in sent.batches}

    def unknown_topic(self, topic: TopicName, error: ClientError) -> None:
        """The cluster says that a topic cannot be written to."""
        for partition, line in list(self._lines.active.items()):
            if partition.topic == topic:
                for batch in list(line.waiting):
                    self._give_up(line, batch, error)

    def fail_all(self, error: ClientError) -> None:
        """Nothing that waits will be sent. What is on its way may still be answered."""
        for line in list(self._lines.active.values()):
            for batch in list(line.waiting):
                self._give_up(line, batch, error)

    def _expire(self, now: float, plan: Plan) -> None:
        for line in list(self._lines.active.values()):
            while line.waiting and line.waiting[0].created_at + self._expiry_s <= now:
                batch = line.waiting[0]
                seconds = self._options.delivery_timeout_ms / MILLISECONDS
                message = f"{batch.count} records for {batch.partition} were not acknowledged within {seconds:g} s."
                self._give_up(line, batch, DeliveryExpired(message))
            if line.waiting:
                plan.wake(line.waiting[0].created_at + self._expiry_s)

    def _bump_if_needed(self) -> None:
        """A partition that lost a batch goes on in a new epoch, once the end of all that it sent is known."""
        identity = self.identity
        if identity is None or not identity.known or self._transaction.transactional_id is not None:
            return
        current = (identity.producer_id, identity.epoch)
        for line in self._lines.active.values():
            if line.needs_epoch and line.identity == current and not line.unresolved:
                identity.bump()
                return

    def _choose(self, view: ClusterView, now: float, flushing: bool, plan: Plan) -> dict[Node, list[Batch]]:
        """At most one batch of each partition, for brokers that take one more request."""
        chosen: dict[Node, list[Batch]] = {}
        room: dict[Node, int] = {}
        for partition, line in self._lines.active.items():
            if not line.waiting or not self._is_due(line, now, flushing, plan):
                continue
            leader = view.leader(partition)
            if leader is None:
                plan.unknown.add(partition.topic)
                continue
            if self._in_flight.get(leader.id, 0) >= self._options.max_in_flight_requests_per_connection:
                continue
            if not self._is_allowed(line, plan):
                continue
            batch = line.waiting[0]
            left = room.get(leader, self._options.max_request_size) - batch.size_bytes - REQUEST_OVERHEAD_BYTES
            if leader in room and left < 0:
                continue
            room[leader] = left
            if self.identity is not None and not batch.has_sequence:
                self.identity.number(line, batch)
            self._encode(batch)
            line.depart()
            batch.attempts += 1
            chosen.setdefault(leader, []).append(batch)
        return chosen

    def _is_due(self, line: Line, now: float, flushing: bool, plan: Plan) -> bool:
        first = line.waiting[0]
        if first.attempts:
            at = first.retry_at
        elif flushing or first is not line.open or self._linger_s == 0:
            return True
        else:
            at = first.created_at + self._linger_s
        if at <= now:
            return True
        plan.wake(at)
        return False

    def _is_allowed(self, line: Line, plan: Plan) -> bool:
        if not self._transaction.may_send(line.partition):
            plan.to_add.add(line.partition)
            return False
        identity = self.identity
        if identity is None:
            return True
        first = line.waiting[0]
        if first.has_sequence:
            # A retry waits until it is the first whose end is not known: so the order stays (KIP-98).
            return not line.in_flight or line.in_flight[0].order > first.order
        if not identity.known:
            plan.needs_identity = True
            return False
        in_flight_max = self._options.max_in_flight_requests_per_connection
        return len(line.in_flight) < in_flight_max and identity.may_number(line)

    def _encode(self, batch: Batch) -> None:
        """Make the bytes, once: a retry has to be the same."""
        if batch.encoded is not None:
            return
        batch.transactional = self._transaction.transactional_id is not None
        parts = batch.parts
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        codec = self._options.compression_type
        attributes = int(codec) | (TRANSACTIONAL_FLAG if batch.transactional else 0)
        if codec:
            body = compress(codec, body, self._options.compression_level)
        batch.encoded = seal_in_parts(
            BatchHeader(
                base_offset=0,
                batch_length=0,
                leader_epoch=NO_EPOCH,
                magic=MAGIC,
                crc=0,
                attributes=attributes,
                last_offset_delta=batch.count - 1,
                base_timestamp=batch.base_timestamp_ms,
                max_timestamp=batch.max_timestamp_ms,
                producer_id=batch.producer_id,
                producer_epoch=batch.producer_epoch,
                base_sequence=batch.base_sequence,
                records_count=batch.count,
            ),
            body,
        )

    def _request(self, node: Node, batches: list[Batch], view: ClusterView) -> ToSend:
        topics = {batch.partition.topic: view.topics[batch.partition.topic] for batch in batches}
        transaction = self._transaction
        request = produce_request(
            batches, topics, self._options.acks, self._options.request_timeout_ms, transaction.transactional_id
        )
        version_max = newest_version(
            topics.values(), transaction.transactional_id is not None, transaction.implicit_add
        )
        self._in_flight[node.id] = self._in_flight.get(node.id, 0) + 1
        return ToSend(node, request, tuple(batches), topics, version_max)

    def _landed(self, sent: ToSend) -> None:
        self._in_flight[sent.node.id] -= 1

    def _conclude(self, batch: Batch, outcome: Outcome, now: float) -> None:
        match outcome:
            case Acknowledged():
                self._end(batch, outcome)
            case TryAgain(error):
                self._retry(batch, error, now)
            case OutOfSequence(error):
                self._renumber(batch, error, now)
            case TooLarge(error):
                self._split(batch, error)
            case Refused(error):
                self._give_up(self._lines.line(batch.partition), batch, error)
            case unknown:
                assert_never(unknown)

    def _retry(self, batch: Batch, error: ClientError, now: float) -> None:
        line = self._lines.line(batch.partition)
        if self._options.acks == ACKS_NONE or batch.attempts > self._options.retries:
            self._give_up(line, batch, error)
            return
        if batch.created_at + self._expiry_s <= now:
            expired = DeliveryExpired(f"{batch.count} records for {batch.partition} were not acknowledged: {error}")
            self._give_up(line, batch, expired)
            return
        batch.retry_at = now + min(
            self._backoff_s * 2 ** min(batch.attempts - 1, 16), self._options.retry_backoff_max_ms / MILLISECONDS
        )
        line.give_back(batch)

    def _renumber(self, batch: Batch, error: Rejected, now: float) -> None:
        """The broker misses what was before the batch.

        While something before it is still on its way, that is expected, and the same bytes are sent again. Otherwise
        the broker has forgotten the producer, or an earlier batch was given up: the batch, which is not written, goes
        on in a new epoch; in a transaction nothing may be left out, so there it has failed.
        """
        line = self._lines.line(batch.partition)
        before = [other for other in (*line.in_flight, *line.waiting) if other.order < batch.order]
        if any(other.has_sequence for other in before):
            self._retry(batch, error, now)
        elif self.identity is None or self._transaction.transactional_id is not None:
            self._give_up(line, batch, error)
        else:
            line.needs_epoch = True
            take_number_back(batch)
            self._retry(batch, error, now)

    def _split(self, batch: Batch, error: Rejected) -> None:
        """Send a batch that is too large for the topic as two, under the same sequences."""
        line = self._lines.line(batch.partition)
        if batch.count < 2 or batch.encoded is None:
            self._give_up(line, batch, error)
            return
        records = read_records(bytes(batch.encoded), check_crc=False)
        middle = batch.count // 2
        halves = []
        for begin, part in ((0, records[:middle]), (middle, records[middle:])):
            half = Batch(batch.partition, batch.order + begin, part[0].timestamp, batch.created_at)
            half.parts = [
                encode_record(
                    index, record.timestamp - half.base_timestamp_ms, record.key, record.value, record.headers
                )
                for index, record in enumerate(part)
            ]
            half.count = len(part)
            half.size_bytes = sum(map(len, half.parts))
            half.max_timestamp_ms = max(record.timestamp for record in part)
            half.callbacks = [
                (index - begin, timestamp, callback)
                for index, timestamp, callback in batch.callbacks
                if begin <= index < begin + half.count
            ]
            half.attempts = batch.attempts
            if batch.base_sequence != NO_SEQUENCE:
                half.producer_id, half.producer_epoch = batch.producer_id, batch.producer_epoch
                half.base_sequence = batch.base_sequence + begin
            halves.append(half)
        first, second = halves
        batch.split_into = (first, second)
        # Whoever waits for the whole waits for its last part, and looks where its record is by itself.
        first.on_settled = list(batch.on_settled)
        second.on_settled = list(batch.on_settled)
        self._lines.split(batch, first, second)

    def _give_up(self, line: Line, batch: Batch, error: ClientError) -> None:
        if batch.has_sequence:
            line.needs_epoch = True
        if batch.transactional or self._transaction.transactional_id is not None:
            self._transaction.failed(error)
        elif isinstance(error, ProducerFenced) and self.identity is not None:
            # Without a transactional id there is no other producer: the broker wants a later epoch.
            line.needs_epoch = True
        self._end(batch, error)

    def _end(self, batch: Batch, outcome: Acknowledged | ClientError) -> None:
        self._lines.settled(batch)
        batch.settle(outcome)
        self._on_settled(batch)
