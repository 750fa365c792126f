"""The markers of a transaction on the broker that has the only replicas of its partitions."""

from __future__ import annotations

import errno

import pytest

from harness.leaders import lone_leader
from harness.logs import EPOCH, NOON_MS, PARTITION, batch_of, new_log, stage
from tidelog.broker.local_end import lone_leaders, write_markers
from tidelog.env.clock import SimulatedClock
from tidelog.env.simulated_files import SimulatedFiles
from tidelog.model.ids import (
    LeaderEpoch,
    NodeId,
    PartitionIndex,
    ProducerEpoch,
    ProducerId,
    TopicName,
    TopicPartition,
)
from tidelog.model.topic_settings import topic_config, topic_defaults
from tidelog.transactions.states import State
from tidelog.transactions.transaction import EPOCH_BUMPING_VERSION, Transaction
from tidelog.wire.batch import iter_headers

PRODUCER = ProducerId(7)
OFFSETS = TopicPartition(TopicName("__consumer_offsets"), PartitionIndex(0))
ELSEWHERE = TopicPartition(TopicName("elsewhere"), PartitionIndex(0))
COORDINATOR = LeaderEpoch(3)
BOTH = (NodeId(1), NodeId(2))


class Bench:
    """One partition with an open transaction of epoch 0."""

    def __init__(self) -> None:
        self.files = SimulatedFiles(1)
        self.files.make_directory("/data")
        log = new_log(self.files, SimulatedClock(NOON_MS), "/data/tides-0")
        stage(log, batch_of([b"1"], producer=(PRODUCER, 0, 0), is_transactional=True))
        log.write_staged()
        self.leader = lone_leader(log, EPOCH)
        self.led = {
            PARTITION.topic: {PARTITION.partition: self.leader},
            OFFSETS.topic: {OFFSETS.partition: self.leader},
        }

    def write(self, *, epoch: int = 1, state: State = State.PREPARE_COMMIT) -> bool:
        decided = Transaction(
            PRODUCER, ProducerEpoch(epoch), 1000, state, frozenset({PARTITION}), client_version=EPOCH_BUMPING_VERSION
        )
        return write_markers(decided, COORDINATOR, [self.leader], NOON_MS)

    def kinds(self) -> list[bool]:
        """Of each batch in the log, whether it is a marker."""
        log = self.leader.log
        piece = log.read(log.start_offset, 1 << 20, log.end_offset)
        assert piece is not None
        return [header.is_control for _, header in iter_headers(memoryview(piece.read()))]


@pytest.mark.parametrize("state", [State.PREPARE_COMMIT, State.PREPARE_ABORT])
def test_a_marker_is_written_at_once_and_moves_the_last_stable_offset(state: State) -> None:
    bench = Bench()
    assert bench.write(state=state)
    assert bench.kinds() == [False, True]
    assert bench.leader.last_stable_offset == bench.leader.high_watermark == 2
    aborted = bench.leader.log.aborted_transactions(bench.leader.log.start_offset, bench.leader.high_watermark)
    assert len(aborted) == (state is State.PREPARE_ABORT)


def test_a_marker_that_a_partition_refuses_is_left_to_those_who_know_what_that_means() -> None:
    bench = Bench()
    assert not bench.write(epoch=0)
    assert bench.kinds() == [False]


def test_it_says_so_when_a_marker_could_not_be_written() -> None:
    bench = Bench()
    bench.files.failures[bench.files.operations + 1] = errno.ENOSPC
    assert not bench.write()
    assert bench.kinds() == [False]


def test_a_marker_that_others_must_have_by_now_is_not_safe_with_the_write() -> None:
    bench = Bench()
    bench.leader.update(EPOCH, 1, BOTH, BOTH, NOON_MS)
    assert not bench.write()


def test_the_leaders_are_those_of_all_partitions() -> None:
    bench = Bench()
    assert lone_leaders(bench.led, {PARTITION}) == [bench.leader]


@pytest.mark.parametrize(
    "partitions", [set(), {ELSEWHERE, PARTITION}, {OFFSETS, PARTITION}], ids=["nowhere", "elsewhere", "offsets"]
)
def test_there_are_none_when_more_is_needed_than_markers_here(partitions: set[TopicPartition]) -> None:
    assert lone_leaders(Bench().led, partitions) is None


def test_there_are_none_where_others_must_have_the_marker_too() -> None:
    bench = Bench()
    bench.leader.update(EPOCH, 1, BOTH, BOTH, NOON_MS)
    assert lone_leaders(bench.led, {PARTITION}) is None


def test_there_are_none_where_the_marker_is_safe_only_when_it_is_on_disk() -> None:
    bench = Bench()
    bench.leader.configure(topic_config(topic_defaults({}), {"flush.messages": "1"}))
    assert lone_leaders(bench.led, {PARTITION}) is None


def test_there_are_none_on_a_disk_that_is_gone() -> None:
    bench = Bench()
    bench.leader.fail()
    assert lone_leaders(bench.led, {PARTITION}) is None
