from __future__ import annotations

from collections.abc import Callable, Mapping
from uuid import UUID

import pytest

from harness.logs import append, new_log
from tidelog.env.clock import SimulatedClock
from tidelog.env.simulated_files import SimulatedFiles
from tidelog.log.errors import LogWriteFailed
from tidelog.log.partition import PartitionLog
from tidelog.log.producer_replay import KnownProducers
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, NodeId, Offset, PartitionIndex, TopicName, TopicPartition
from tidelog.model.topic_settings import topic_defaults
from tidelog.replica.disk import Replica
from tidelog.replica.fetcher import Asked, Fetcher, FetcherSettings
from tidelog.replica.follower import PartitionFollower
from tidelog.wire.messages.fetch import EpochEndOffset, FetchableTopicResponse, FetchResponse, PartitionData

TOPIC = UUID(int=5)
SESSION = 77
NOW_MS = 1_000_000
Known = dict[TopicPartition, KnownProducers]


class Cuts:
    """Cuts logs when the test lets it, at once unless told otherwise, and keeps where."""

    def __init__(self) -> None:
        self.waits = False
        self.prepared: list[Callable[[], None]] = []
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.truncated: dict[TopicPartition, Offset] = {}

    def prepare(self, offsets: Mapping[TopicPartition, Offset], then: Callable[[Known, int], None]) -> None:
        tasks = {partition: self.logs[partition].cut_task(offset) for partition, offset in offsets.items()}

        def ready() -> None:
            then({partition: task.run() for partition, task in tasks.items() if task is not None}, NOW_MS)

        if self.waits:
            self.prepared.append(ready)
        else:
            ready()

    def truncate(
        self, offsets: Mapping[TopicPartition, Offset], known: Mapping[TopicPartition, KnownProducers]
    ) -> None:
        self.truncated.update(offsets)
        for partition, offset in offsets.items():
            self.logs[partition].truncate_to(offset, known.get(partition))

    def start_over(self, partition: TopicPartition, offset: Offset) -> None:
        self.logs[partition].truncate_fully_and_start_at(offset)

    def sync_due(self, replica: Replica) -> None: ...
    def sync_later(self, replica: Replica, delay_ms: int) -> None: ...
    def write_failed(self, replica: Replica, failure: LogWriteFailed) -> None: ...


class Bench:
    """A fetcher with followers of partitions 0, 1, …"""

    def __init__(self, partitions: int = 3) -> None:
        self.cuts = Cuts()
        self.refusals: list[ErrorCode] = []
        self.times_cut = 0
        self.fetcher = Fetcher(
            NodeId(2),
            lambda: 9,
            FetcherSettings(),
            self.cuts,
            lambda _, code, reason: self.refusals.append(code),
            self._cut,
        )
        self.followers = [self.follower(index) for index in range(partitions)]
        for follower in self.followers:
            self.fetcher.add(follower)

    def _cut(self) -> None:
        self.times_cut += 1

    def follower(self, index: int) -> PartitionFollower:
        log = new_log(SimulatedFiles(), SimulatedClock(), f"/{index}")
        follower = PartitionFollower(
            topic=TopicName("tides"),
            topic_id=TOPIC,
            index=PartitionIndex(index),
            log=log,
            config=topic_defaults({}),
            epoch=LeaderEpoch(1),
            leader=NodeId(1),
            high_watermark=Offset(0),
            disk=self.cuts,
            on_synced=lambda _: None,
        )
        log.partition = TopicPartition(TopicName("tides"), PartitionIndex(index))
        self.cuts.logs[log.partition] = log
        return follower

    def ask(self, now_ms: int = NOW_MS) -> Asked:
        asked = self.fetcher.request(now_ms)
        assert asked is not None
        return asked

    def answer(self, asked: Asked, *data: PartitionData, code: int = 0, session: int = SESSION) -> bool:
        response = FetchResponse(0, code, session, [FetchableTopicResponse("", TOPIC, list(data))])
        return self.fetcher.answered(asked, response, NOW_MS)

    def in_session(self) -> None:
        """Get the first, full fetch out of the way."""
        self.answer(self.ask(), *(PartitionData(index) for index in range(len(self.followers))))


def named(asked: Asked) -> list[int]:
    return [partition.partition for topic in asked.request.topics for partition in topic.partitions]


def records(count: int, start: int = 0) -> bytes:
    log = new_log(SimulatedFiles(), SimulatedClock(), "/leader")
    if start:
        log.truncate_fully_and_start_at(Offset(start))
    append(log, *(b"x" for _ in range(count)), epoch=1)
    piece = log.read(Offset(start), 1 << 20, log.end_offset)
    assert piece is not None
    return piece.read()


def test_the_first_fetch_names_everything_and_later_ones_what_has_changed() -> None:
    bench = Bench()
    first = bench.ask()
    assert named(first) == [0, 1, 2]
    assert first.request.session_epoch == 0
    bench.answer(first, PartitionData(1, records=records(2)), PartitionData(0), PartitionData(2))
    second = bench.ask()
    assert named(second) == [1]
    assert (second.request.session_id, second.request.session_epoch) == (SESSION, 1)
    assert second.request.topics[0].partitions[0].fetch_offset == 2
    bench.answer(second)
    assert named(bench.ask()) == []


def test_a_session_that_the_leader_forgot_begins_anew() -> None:
    bench = Bench()
    bench.in_session()
    assert not bench.answer(bench.ask(), code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    again = bench.ask()
    assert (named(again), again.request.session_id, again.request.session_epoch) == ([0, 1, 2], 0, 0)


def test_after_a_broken_connection_late_answers_of_the_old_session_are_dropped() -> None:
    bench = Bench()
    bench.in_session()
    late = bench.ask()
    bench.fetcher.failed(late)
    bench.answer(bench.ask(), PartitionData(0))
    bench.answer(late, PartitionData(0, records=records(5)))
    assert bench.followers[0].log.end_offset == 0


def test_a_refused_partition_is_left_out_for_a_while_and_harms_no_other() -> None:
    bench = Bench()
    bench.in_session()
    bench.answer(bench.ask(), PartitionData(1, ErrorCode.KAFKA_STORAGE_ERROR), PartitionData(2, records=records(3)))
    following = bench.ask()
    assert named(following) == [2]
    assert [gone.partitions for gone in following.request.forgotten_topics_data] == [[1]]
    assert bench.refusals == [ErrorCode.KAFKA_STORAGE_ERROR]
    bench.answer(following)
    due_ms = bench.fetcher.next_due_ms()
    assert due_ms is not None and due_ms > NOW_MS
    assert named(bench.ask(due_ms)) == [1]


def test_a_partition_that_comes_up_again_before_the_leader_was_told_to_forget_it_is_not_forgotten() -> None:
    bench = Bench()
    bench.in_session()
    bench.fetcher.add(bench.follower(3))
    asked = bench.ask()
    # A second request is on its way when the first is refused: nothing is sent in between.
    bench.fetcher.add(bench.follower(4))
    bench.ask()
    bench.answer(asked, PartitionData(3, error_code=ErrorCode.UNKNOWN_TOPIC_ID))

    again = bench.ask(NOW_MS + 1000)

    assert named(again) == [3]
    assert again.request.forgotten_topics_data == []


def test_an_answer_about_an_earlier_position_is_not_taken() -> None:
    bench = Bench(1)
    bench.in_session()
    waiting = bench.ask()
    bench.followers[0].epoch = LeaderEpoch(2)
    bench.fetcher.add(bench.followers[0])
    assert bench.fetcher.has_news(NOW_MS), "worth telling the leader before it answers"
    overtaking = bench.ask()
    assert named(overtaking) == [0]
    bench.answer(waiting, PartitionData(0, records=records(4)))
    assert bench.followers[0].log.end_offset == 0
    bench.answer(overtaking, PartitionData(0, records=records(4)))
    assert bench.followers[0].log.end_offset == 4


def test_logs_that_part_from_the_leaders_are_cut_together_and_fetched_on() -> None:
    bench = Bench(2)
    for follower in bench.followers:
        for _ in range(5):
            append(follower.log, b"x", epoch=1)
    first = bench.ask()
    bench.answer(
        first,
        PartitionData(0, diverging_epoch=EpochEndOffset(1, 2)),
        PartitionData(1, diverging_epoch=EpochEndOffset(1, 3)),
    )
    assert [follower.log.end_offset for follower in bench.followers] == [2, 3]
    assert named(bench.ask()) == [0, 1]


def test_while_a_cut_is_prepared_that_partition_alone_waits() -> None:
    bench = Bench(2)
    bench.cuts.waits = True
    for _ in range(5):
        append(bench.followers[0].log, b"x", epoch=1)
    parted = PartitionData(0, diverging_epoch=EpochEndOffset(1, 2))
    bench.answer(bench.ask(), parted, PartitionData(1, records=records(4)))
    assert bench.followers[0].log.end_offset == 5
    assert named(bench.ask()) == [1]

    (ready,) = bench.cuts.prepared
    ready()

    assert bench.followers[0].log.end_offset == 2
    assert bench.times_cut == 1
    assert named(bench.ask()) == [0]


@pytest.mark.parametrize("change", ["another epoch", "another leader", "this broker leads"])
def test_a_cut_that_a_former_leader_asked_for_is_not_made_when_it_is_prepared_too_late(change: str) -> None:
    bench = Bench(1)
    bench.cuts.waits = True
    (follower,) = bench.followers
    for _ in range(5):
        append(follower.log, b"x", epoch=1)
    bench.answer(bench.ask(), PartitionData(0, diverging_epoch=EpochEndOffset(1, 2)))
    match change:
        case "another epoch":
            follower.epoch = LeaderEpoch(2)
            bench.fetcher.add(follower)
        case "another leader":
            bench.fetcher.remove(follower)
        case "this broker leads":
            bench.fetcher.remove(follower)
            append(follower.log, b"own", epoch=3)
    end = follower.log.end_offset

    (ready,) = bench.cuts.prepared
    ready()

    assert follower.log.end_offset == end
    assert bench.cuts.truncated == {}


def test_a_log_that_grew_while_its_cut_was_prepared_is_asked_for_again() -> None:
    bench = Bench(1)
    bench.cuts.waits = True
    (follower,) = bench.followers
    for _ in range(5):
        append(follower.log, b"x", epoch=1)
    bench.answer(bench.ask(), PartitionData(0, diverging_epoch=EpochEndOffset(1, 2)))
    append(follower.log, b"x", epoch=1)

    (ready,) = bench.cuts.prepared
    ready()

    assert follower.log.end_offset == 6
    assert named(bench.ask()) == [0], "it must not wait for ever"


def test_who_fell_out_of_the_leaders_range_begins_where_the_leader_begins() -> None:
    bench = Bench(1)
    bench.in_session()
    bench.answer(bench.ask(), PartitionData(0, ErrorCode.OFFSET_OUT_OF_RANGE, log_start_offset=40))
    asked = bench.ask()
    assert asked.request.topics[0].partitions[0].fetch_offset == 40
    bench.answer(asked, PartitionData(0, records=records(2, start=40)))
    assert bench.followers[0].log.end_offset == 42


def test_with_nothing_to_fetch_nothing_is_asked() -> None:
    bench = Bench(1)
    bench.in_session()
    bench.fetcher.remove(bench.followers[0])
    assert bench.fetcher.request(NOW_MS) is None


def test_a_leader_without_room_for_sessions_is_told_everything_each_time() -> None:
    bench = Bench(2)
    bench.answer(bench.ask(), session=0)
    again = bench.ask()
    assert named(again) == [0, 1]
    assert again.request.max_wait_ms > 0
