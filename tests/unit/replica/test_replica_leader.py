from __future__ import annotations

import errno
from collections.abc import Callable
from uuid import UUID

import pytest

from harness.leaders import NoDisk, lone_leader
from harness.logs import append, batch_of, new_log
from tidelog.env.clock import SimulatedClock
from tidelog.env.simulated_files import SimulatedFiles
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import LeaderEpoch, NodeId, Offset, PartitionIndex, ProducerEpoch, ProducerId, TopicName
from tidelog.model.topic_settings import topic_config, topic_defaults
from tidelog.replica.in_sync import InSync
from tidelog.replica.leader import PartitionLeader
from tidelog.wire.messages.fetch import FetchPartition
from tidelog.wire.messages.produce import PartitionProduceResponse

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)
EPOCH = LeaderEpoch(4)
NOW_MS = 1_700_000_000_000


class Listening:
    """Keeps what a partition tells its watchers, or who waits for acknowledgements."""

    def __init__(self) -> None:
        self.told: list[int | str] = []

    def grew(self, _: object, grown_bytes: int) -> None:
        self.told.append(grown_bytes)

    def replicated(self) -> None:
        self.told.append("replicated")

    def failed(self) -> None:
        self.told.append("failed")


def leading(isr: tuple[NodeId, ...] = (ONE, TWO), *, records: int = 4, min_isr: int = 1) -> PartitionLeader:
    """Broker 1 leads three replicas from epoch 4 on; what is in the log is of epoch 2."""
    log = new_log(SimulatedFiles(), SimulatedClock(), "/log")
    for _ in range(records):
        append(log, b"x", epoch=2)
    in_sync = InSync(ONE, 30_000, {})
    in_sync.lead(EPOCH, 0, (ONE, TWO, THREE), isr, log.end_offset, NOW_MS)
    return PartitionLeader(
        topic=TopicName("tides"),
        topic_id=UUID(int=1),
        index=PartitionIndex(0),
        log=log,
        config=topic_config(topic_defaults({}), {"min.insync.replicas": str(min_isr)}),
        epoch=EPOCH,
        in_sync=in_sync,
        high_watermark=Offset(1),
        on_staged=lambda _: None,
        disk=NoDisk(),
    )


def fetched(
    leader: PartitionLeader, node: NodeId, offset: int, *, epoch: int = EPOCH, last_epoch: int = 2, start: int = 0
) -> None:
    leader.fetched_by(node, 7, FetchPartition(0, epoch, offset, last_epoch, start), NOW_MS)


def produce(leader: PartitionLeader, *values: bytes) -> None:
    leader.stage(batch_of(values, timestamp=NOW_MS), PartitionProduceResponse(0), NOW_MS)
    leader.write_staged()


@pytest.mark.req("D15", "D17")
def test_the_high_watermark_begins_with_what_is_known_and_moves_with_what_followers_fetch() -> None:
    leader = leading()
    assert leader.high_watermark == 1
    fetched(leader, TWO, 3)
    assert leader.high_watermark == 3
    fetched(leader, TWO, 2)
    assert leader.high_watermark == 3, "it never goes back"
    fetched(leader, TWO, 4)
    assert leader.high_watermark == 4


def test_a_fetch_that_is_to_be_refused_says_nothing() -> None:
    leader = leading()
    fetched(leader, TWO, 4, epoch=EPOCH - 1)
    fetched(leader, TWO, 4, last_epoch=3)
    fetched(leader, TWO, 9)
    fetched(leader, NodeId(8), 4)
    assert leader.high_watermark == 1


def test_below_the_floor_nothing_becomes_committed() -> None:
    leader = leading(isr=(ONE,), min_isr=2)
    assert leader.high_watermark == 1
    produce(leader, b"y")
    assert leader.high_watermark == 1
    leader.update(EPOCH, 1, (ONE, TWO, THREE), (ONE, TWO), NOW_MS)
    fetched(leader, TWO, 5, last_epoch=EPOCH)
    assert leader.high_watermark == 5


@pytest.mark.req("E3")
def test_acks_all_waits_for_the_isr_and_fails_when_leadership_goes() -> None:
    leader = leading()
    produce(leader, b"y")
    first, second = Listening(), Listening()
    leader.waiting_acks.add(Offset(5), first)
    fetched(leader, TWO, 5, last_epoch=EPOCH)
    assert first.told == ["replicated"]
    produce(leader, b"z")
    leader.waiting_acks.add(Offset(6), second)
    leader.resign()
    assert second.told == ["failed"]


@pytest.mark.req("D13", "D14")
def test_followers_are_told_of_growth_at_once_and_consumers_when_it_is_committed() -> None:
    leader = leading()
    consumer, follower = Listening(), Listening()
    leader.watchers[consumer] = None
    leader.end_watchers[follower] = None
    produce(leader, b"y")
    assert (len(consumer.told), len(follower.told)) == (0, 1)
    fetched(leader, TWO, 5, last_epoch=EPOCH)
    assert len(consumer.told) == 1
    assert follower.told[-1] == 0, "a new high watermark alone is no reason to answer"


def test_deleted_records_are_gone_when_every_live_follower_has_let_go_of_them() -> None:
    leader = leading()
    follower = Listening()
    leader.end_watchers[follower] = None
    looks: list[Offset] = []
    leader.start_watchers[lambda: looks.append(leader.low_watermark({TWO, THREE}.__contains__))] = None
    fetched(leader, TWO, 4)
    fetched(leader, THREE, 4)

    assert leader.delete_records_before(Offset(3)) == 3
    assert follower.told[-1] > 0, "a follower that waits for records is told at once"
    assert leader.low_watermark(lambda node: True) == 0
    fetched(leader, TWO, 4, start=3)
    assert leader.low_watermark({TWO}.__contains__) == 3, "nobody waits for a broker that is gone"
    fetched(leader, THREE, 4, start=3)
    assert looks[-2:] == [0, 3]


def test_records_of_a_topic_that_is_compacted_only_are_not_deleted() -> None:
    leader = leading()
    leader.configure(topic_config(topic_defaults({}), {"cleanup.policy": "compact"}))
    with pytest.raises(ProtocolError) as refused:
        leader.delete_records_before(Offset(3))
    assert refused.value.code is ErrorCode.POLICY_VIOLATION


def test_what_was_staged_when_leadership_goes_is_in_the_log_and_not_committed() -> None:
    leader = leading(isr=(ONE,))
    leader.stage(batch_of([b"y"], timestamp=NOW_MS), PartitionProduceResponse(0), NOW_MS)
    leader.resign()
    assert (leader.log.end_offset, leader.high_watermark) == (5, 4)


def test_a_new_epoch_is_known_from_the_first_moment() -> None:
    leader = leading()
    assert leader.divergence(LeaderEpoch(3), Offset(6)) == (2, 4), "what epoch 3 wrote elsewhere never was"
    assert leader.divergence(LeaderEpoch(2), Offset(4)) is None


def alone(on_staged: Callable[[PartitionLeader], None] = lambda _: None) -> tuple[PartitionLeader, SimulatedFiles]:
    files = SimulatedFiles()
    return lone_leader(new_log(files, SimulatedClock(), "/log"), EPOCH, on_staged), files


class Promised:
    """Something of the broker's own that comes when the partition is written, or when somebody else comes."""

    def __init__(self, waiter: Listening) -> None:
        self._waiter = waiter

    def stage_expected(self, leader: PartitionLeader) -> None:
        leader.stage_own(bytes(batch_of([b"marker"], timestamp=NOW_MS)), self._waiter)


def test_what_the_broker_appends_at_once_is_written_and_readable_with_that() -> None:
    leader, _ = alone()
    leader.stage(batch_of([b"before"], timestamp=NOW_MS), PartitionProduceResponse(0), NOW_MS)
    assert leader.append_own(bytearray(batch_of([b"own"], timestamp=NOW_MS)), NOW_MS) == 2
    assert leader.log.end_offset == leader.high_watermark == 2
    leader.write_staged()
    assert leader.log.end_offset == 2, "there is nothing left to write"


def test_what_the_broker_cannot_append_at_once_is_not_there() -> None:
    leader, files = alone()
    leader.append_own(bytearray(batch_of([b"own"], timestamp=NOW_MS)), NOW_MS)
    files.failures[files.operations + 1] = errno.ENOSPC
    with pytest.raises(ProtocolError) as refused:
        leader.append_own(bytearray(batch_of([b"lost"], timestamp=NOW_MS)), NOW_MS)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert leader.log.end_offset == leader.high_watermark == 1
    assert leader.append_own(bytearray(batch_of([b"again"], timestamp=NOW_MS)), NOW_MS) == 2


def test_who_was_promised_the_next_offset_has_it_though_somebody_else_comes() -> None:
    told: list[PartitionLeader] = []
    leader, _ = alone(told.append)
    waiter = Listening()
    assert leader.expect_own(Promised(waiter)) == 0
    answer = PartitionProduceResponse(0)
    leader.stage(batch_of([b"x"], timestamp=NOW_MS), answer, NOW_MS)
    leader.write_staged()
    assert (answer.base_offset, waiter.told, leader.high_watermark) == (1, ["replicated"], 2)
    assert told == [leader], "the turn is told once of the write"


def test_a_marker_is_written_and_readable_with_that_behind_all_that_is_staged() -> None:
    leader, _ = alone()
    answer = PartitionProduceResponse(0)
    leader.stage(batch_of([b"before"], timestamp=NOW_MS), answer, NOW_MS)
    leader.append_marker(ProducerId(7), ProducerEpoch(1), True, 3, NOW_MS)
    assert leader.log.end_offset == leader.high_watermark == leader.staged_end_offset == 2
    assert (answer.base_offset, answer.error_code) == (0, 0)
    leader.write_staged()
    assert leader.log.end_offset == 2, "there is nothing left to write"


@pytest.mark.parametrize("why", ["full", "offline", "led elsewhere"])
def test_a_marker_that_cannot_be_written_is_not_there(why: str) -> None:
    leader, files = alone()
    leader.append_marker(ProducerId(7), ProducerEpoch(1), True, 3, NOW_MS)
    if why == "full":
        files.failures[files.operations + 1] = errno.ENOSPC
    elif why == "offline":
        leader.fail()
    else:
        leader.resign()
    with pytest.raises(ProtocolError):
        leader.append_marker(ProducerId(8), ProducerEpoch(1), True, 3, NOW_MS)
    assert leader.log.end_offset == leader.high_watermark == 1
