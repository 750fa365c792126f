"""The producer's core against a scripted broker that loses and refuses: no record is lost, doubled or swapped.

The broker keeps the sequences of producers as a real one does. Hypothesis writes the script: which requests arrive,
which answers do, in what order, and what is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.client.core.identity import take_number_back
from tidelog.client.core.lines import Lines
from tidelog.client.core.metadata import ClusterView, Node, Partition, Topic
from tidelog.client.core.options import ProducerOptions, read_options
from tidelog.client.core.pending import Acknowledged, Batch
from tidelog.client.core.sending import Sender, ToSend
from tidelog.client.errors import BrokerUnreachable, ClientError
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, NodeId, PartitionIndex, ProducerEpoch, ProducerId, TopicName, TopicPartition
from tidelog.wire.batch import read_header
from tidelog.wire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from tidelog.wire.records import read_records

TOPIC = TopicName("t")
PARTITIONS = 2
REMEMBERED_BATCHES = 5
STEP_S = 0.4

NODE = Node(NodeId(1), "localhost", 9092)
VIEW = ClusterView(
    nodes={NODE.id: NODE},
    topics={
        TOPIC: Topic(
            TOPIC,
            partitions=tuple(
                Partition(PartitionIndex(index), NODE.id, LeaderEpoch(0), (NODE.id,), (NODE.id,))
                for index in range(PARTITIONS)
            ),
        )
    },
)


@dataclass
class Log:
    """One partition of the scripted broker."""

    values: list[bytes] = field(default_factory=list)
    epoch: int = -1
    next_sequence: int = 0
    # The last batches of the producer: first sequence to base offset.
    remembered: dict[tuple[int, int], int] = field(default_factory=dict)

    def append(self, encoded: bytes) -> tuple[ErrorCode, int]:
        header = read_header(encoded)
        values = [record.value or b"" for record in read_records(encoded)]
        known = self.remembered.get((header.producer_epoch, header.base_sequence))
        if known is not None:
            return ErrorCode.NONE, known
        if header.producer_epoch < self.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH, -1
        expected = 0 if header.producer_epoch > self.epoch else self.next_sequence
        if header.base_sequence != expected:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        base = len(self.values)
        self.values += values
        self.epoch = header.producer_epoch
        self.next_sequence = header.base_sequence + len(values)
        self.remembered[header.producer_epoch, header.base_sequence] = base
        while len(self.remembered) > REMEMBERED_BATCHES:
            del self.remembered[next(iter(self.remembered))]
        return ErrorCode.NONE, base


class World:
    """A sender, a broker, and what is on the wire between them."""

    def __init__(self, **named: object) -> None:
        options: ProducerOptions = read_options(
            ProducerOptions,
            None,
            {"bootstrap_servers": "a:1", "linger_ms": 0, "batch_size": 100, "retry_backoff_ms": 100, **named},
        )
        self.now = 0.0
        self.lines = Lines(options.batch_size)
        self.sender = Sender(options, self.lines, self._settled)
        self.logs = {TopicPartition(TOPIC, PartitionIndex(index)): Log() for index in range(PARTITIONS)}
        self.settled: list[Batch] = []
        self.outcomes: dict[int, Acknowledged | ClientError | None] = {}
        self.batches: list[tuple[int, Batch, int]] = []
        self.wire: list[ToSend] = []
        self.sent = 0
        assert self.sender.identity is not None
        self.sender.identity.begin(ProducerId(7), ProducerEpoch(0))

    def _settled(self, batch: Batch) -> None:
        self.settled.append(batch)

    def send(self, partition: int) -> None:
        place = TopicPartition(TOPIC, PartitionIndex(partition))
        batch, _ = self.lines.append(place, None, b"%d" % self.sent, (), 1000, self.now)
        self.batches.append((self.sent, batch, batch.count - 1))
        self.sent += 1

    def turn(self) -> None:
        self.now += STEP_S
        self.wire += self.sender.requests(VIEW, self.now).requests

    def handle(self, sent: ToSend, arrives: bool, answered: bool, refusal: ErrorCode) -> None:
        """Let the oldest request reach the broker or not, and its answer come back or not."""
        rows = []
        if arrives:
            for topic in sent.request.topic_data:
                for data in topic.partition_data:
                    place = TopicPartition(TOPIC, PartitionIndex(data.index))
                    assert data.records is not None
                    if refusal:
                        rows.append(PartitionProduceResponse(data.index, refusal, -1))
                    else:
                        code, base = self.logs[place].append(bytes(data.records))
                        rows.append(PartitionProduceResponse(data.index, code, base))
        if arrives and answered:
            self.sender.answered(
                sent, ProduceResponse([TopicProduceResponse(TOPIC, partition_responses=rows)]), self.now
            )
        else:
            self.sender.lost(sent, BrokerUnreachable("gone"), self.now)

    def finish(self) -> None:
        """No more faults: everything comes to its end."""
        for _ in range(400):
            if not self.lines.batches:
                return
            self.turn()
            while self.wire:
                self.handle(self.wire.pop(0), True, True, ErrorCode.NONE)
        raise AssertionError(f"{self.lines.batches} batches never ended")

    def outcome_of(self, batch: Batch) -> Acknowledged | ClientError:
        assert batch.outcome is not None
        return batch.outcome


Step = st.one_of(
    st.tuples(st.just("send"), st.integers(0, PARTITIONS - 1)),
    st.tuples(st.just("turn"), st.just(0)),
    st.tuples(st.just("deliver"), st.just(0)),
    st.tuples(st.just("lose request"), st.just(0)),
    st.tuples(st.just("lose answer"), st.just(0)),
    st.tuples(st.just("refuse"), st.sampled_from([ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS])),
    st.tuples(st.just("refuse for good"), st.just(ErrorCode.INVALID_TIMESTAMP)),
)


def run(world: World, script: list[tuple[str, int]]) -> None:
    for action, argument in script:
        if action == "send":
            world.send(argument)
        elif action == "turn":
            world.turn()
        elif world.wire:
            sent = world.wire.pop(0)
            refusal = ErrorCode(argument) if action.startswith("refuse") else ErrorCode.NONE
            world.handle(sent, action != "lose request", action != "lose answer", refusal)
    world.finish()


@given(st.lists(Step, max_size=80), st.integers(1, 5))
@settings(max_examples=150)
def test_every_record_is_written_once_and_in_order_whatever_gets_lost(script: list[tuple[str, int]], pipe: int) -> None:
    world = World(max_in_flight_requests_per_connection=pipe)
    run(world, [step for step in script if step[0] != "refuse for good"])
    for place, log in world.logs.items():
        sent = [number for number, batch, _ in world.batches if batch.partition == place]
        assert log.values == [b"%d" % number for number in sent]
    for number, batch, index in world.batches:
        outcome = world.outcome_of(batch)
        assert isinstance(outcome, Acknowledged)
        assert world.logs[batch.partition].values[outcome.base_offset + index] == b"%d" % number


@given(st.lists(Step, max_size=80))
@settings(max_examples=150)
def test_what_is_given_up_leaves_no_gap_that_others_fall_into(script: list[tuple[str, int]]) -> None:
    world = World(delivery_timeout_ms=3_000)
    run(world, script)
    for place, log in world.logs.items():
        written = [int(value) for value in log.values]
        assert written == sorted(set(written)), "doubled or swapped"
        acknowledged = {
            number
            for number, batch, _ in world.batches
            if batch.partition == place and isinstance(world.outcome_of(batch), Acknowledged)
        }
        assert acknowledged <= set(written), "acknowledged but not there"


@given(st.lists(Step, max_size=60))
@settings(max_examples=100)
def test_the_bookkeeping_of_the_buffer_ends_where_it_began(script: list[tuple[str, int]]) -> None:
    world = World(delivery_timeout_ms=3_000)
    run(world, script)
    assert (world.lines.size_bytes, world.lines.batches, world.lines.active) == (0, 0, {})
    assert len(world.settled) == len(set(map(id, world.settled)))


def test_a_sender_that_numbers_anew_what_may_have_been_written_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scripted broker must be able to catch mistakes: one is made here on purpose."""

    def lost(self: Sender, sent: ToSend, error: ClientError, now: float) -> set[TopicName]:
        for batch in sent.batches:
            self._lines.line(batch.partition).needs_epoch = True
            take_number_back(batch)
        return honest(self, sent, error, now)

    honest = Sender.lost
    monkeypatch.setattr(Sender, "lost", lost)
    world = World()
    run(world, [("send", 0), ("turn", 0), ("lose answer", 0)])
    assert world.logs[TopicPartition(TOPIC, PartitionIndex(0))].values == [b"0", b"0"]
