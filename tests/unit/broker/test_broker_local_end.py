"""The end of a transaction on the broker that leads all of its partitions."""

from __future__ import annotations

import errno

import pytest

from harness.leaders import lone_leader
from harness.logs import EPOCH, NOON_MS, PARTITION, batch_of, new_log, stage
from tidelog.broker.local_end import LocalEnd
from tidelog.env.clock import SimulatedClock
from tidelog.env.simulated_files import SimulatedFiles
from tidelog.model.ids import NodeId, PartitionIndex, ProducerEpoch, ProducerId, TopicName, TopicPartition
from tidelog.model.topic_settings import topic_config, topic_defaults
from tidelog.transactions.calls import Ending
from tidelog.transactions.transaction import Producer
from tidelog.wire.batch import iter_headers

PRODUCER = ProducerId(7)
OFFSETS = TopicPartition(TopicName("__consumer_offsets"), PartitionIndex(0))


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
        self.outcomes: list[bool] = []

    def end(self, *partitions: TopicPartition, epoch: int = 1) -> LocalEnd:
        producer = Producer(PRODUCER, ProducerEpoch(epoch))
        ending = Ending("payments", producer, True, frozenset(partitions), 3, version=2)
        return LocalEnd(ending, lambda _, is_written: self.outcomes.append(is_written))

    def kinds(self) -> list[bool]:
        """Of each batch in the log, whether it is a marker."""
        log = self.leader.log
        piece = log.read(log.start_offset, 1 << 20, log.end_offset)
        assert piece is not None
        return [header.is_control for _, header in iter_headers(memoryview(piece.read()))]


def test_it_is_done_when_its_markers_are_replicated() -> None:
    bench = Bench()

    assert bench.end(PARTITION).write(bench.led, NOON_MS)
    assert bench.outcomes == []
    bench.leader.write_staged()

    assert bench.outcomes == [True]
    assert bench.kinds() == [False, True]
    assert bench.leader.last_stable_offset == bench.leader.high_watermark == 2


@pytest.mark.parametrize(
    "partitions",
    [(), (TopicPartition(TopicName("elsewhere"), PartitionIndex(0)), PARTITION), (OFFSETS, PARTITION)],
    ids=["nowhere", "elsewhere", "offsets"],
)
def test_it_does_nothing_when_more_is_needed_than_markers_here(partitions: tuple[TopicPartition, ...]) -> None:
    bench = Bench()

    assert not bench.end(*partitions).write(bench.led, NOON_MS)
    bench.leader.write_staged()

    assert bench.outcomes == []
    assert bench.kinds() == [False]


def test_it_leaves_a_marker_that_a_partition_refuses_to_those_who_know_what_that_means() -> None:
    bench = Bench()

    assert not bench.end(PARTITION, epoch=0).write(bench.led, NOON_MS)


def test_it_says_so_when_a_marker_could_not_be_written() -> None:
    bench = Bench()
    bench.end(PARTITION).write(bench.led, NOON_MS)

    bench.files.failures[bench.files.operations + 1] = errno.ENOSPC
    bench.leader.write_staged()

    assert bench.outcomes == [False]
    assert bench.kinds() == [False]


def test_who_has_given_up_is_told_nothing() -> None:
    bench = Bench()
    end = bench.end(PARTITION)
    end.write(bench.led, NOON_MS)

    end.cancel()
    bench.leader.write_staged()

    assert bench.outcomes == []


def test_who_asked_need_not_wait_where_this_broker_alone_writes() -> None:
    bench = Bench()
    end = bench.end(PARTITION)
    end.write(bench.led, NOON_MS)
    assert end.ends_with_turn


def test_who_asked_waits_where_others_must_have_the_marker_too() -> None:
    bench = Bench()
    others = (NodeId(1), NodeId(2))
    bench.leader.update(EPOCH, 1, others, others, NOON_MS)
    end = bench.end(PARTITION)
    end.write(bench.led, NOON_MS)
    assert not end.ends_with_turn
    bench.leader.write_staged()
    assert bench.outcomes == []


def test_who_asked_waits_where_the_marker_is_safe_only_when_it_is_on_disk() -> None:
    bench = Bench()
    bench.leader.configure(topic_config(topic_defaults({}), {"flush.messages": "1"}))
    end = bench.end(PARTITION)
    end.write(bench.led, NOON_MS)
    assert not end.ends_with_turn


def test_two_ends_in_one_turn_are_written_in_their_order() -> None:
    bench = Bench()
    log = bench.leader.log
    stage(log, batch_of([b"2"], producer=(ProducerId(8), 0, 0), is_transactional=True))
    log.write_staged()
    for producer_id in (PRODUCER, ProducerId(8)):
        ending = Ending("payments", Producer(producer_id, ProducerEpoch(1)), True, frozenset({PARTITION}), 3, version=2)
        assert LocalEnd(ending, lambda _, is_written: bench.outcomes.append(is_written)).write(bench.led, NOON_MS)

    bench.leader.write_staged()

    assert bench.outcomes == [True, True]
    assert bench.kinds() == [False, False, True, True]
    assert bench.leader.last_stable_offset == 4
