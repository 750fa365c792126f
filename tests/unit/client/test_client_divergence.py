"""Whether a new leader has what was read (KIP-320): when it is asked, and what follows from its answer."""

from __future__ import annotations

import pytest

from tidelog.client.core.chunk import FetchedChunk
from tidelog.client.core.divergence import EpochEnd, Verdict, epoch_ends, epochs_request, judge, truncated
from tidelog.client.core.metadata import ClusterView, Node, Partition, Topic
from tidelog.client.core.reading import EpochQuestion, Place, Reading
from tidelog.client.errors import Rejected
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, NodeId, Offset, PartitionIndex, TopicName, TopicPartition
from tidelog.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

A0 = TopicPartition(TopicName("a"), PartitionIndex(0))
BROKER = Node(NodeId(1), "localhost", 9092)


def view(leader_epoch: int) -> ClusterView:
    partition = Partition(A0.partition, BROKER.id, LeaderEpoch(leader_epoch), (BROKER.id,), (BROKER.id,))
    return ClusterView(nodes={BROKER.id: BROKER}, topics={A0.topic: Topic(A0.topic, partitions=(partition,))})


def reading_at(offset: int, epoch: int) -> Reading:
    reading = Reading(partition_bytes_max=1000, buffer_bytes_max=10_000)
    reading.assign([A0])
    reading.place(A0).go_to(Offset(offset), LeaderEpoch(epoch))
    return reading


def end(epoch: int, offset: int) -> EpochEnd:
    return EpochEnd(LeaderEpoch(epoch), Offset(offset))


def test_a_leader_of_a_later_epoch_is_asked_once_before_it_is_read_from() -> None:
    reading = reading_at(10, epoch=3)
    wants = reading.wants(view(5))
    assert (wants.fetches, wants.checks) == ({}, {BROKER: {A0: EpochQuestion(LeaderEpoch(3), LeaderEpoch(5))}})
    assert reading.wants(view(5)).checks == {}
    place = reading.place(A0)
    place.trusted_epoch, place.is_checking = LeaderEpoch(5), False
    assert list(reading.wants(view(5)).fetches[BROKER]) == [A0]
    assert list(reading.wants(view(6)).checks[BROKER]) == [A0]


def test_a_position_without_an_epoch_is_taken_as_it_is() -> None:
    reading = reading_at(10, epoch=-1)
    wants = reading.wants(view(5))
    assert wants.checks == {} and list(wants.fetches[BROKER]) == [A0]


def test_the_epoch_of_what_was_fetched_last_is_what_a_later_leader_is_asked_about() -> None:
    reading = reading_at(10, epoch=-1)
    reading.wants(view(5))
    chunk = FetchedChunk(A0, memoryview(b""), Offset(10), last_epoch=LeaderEpoch(4))
    assert reading.came(chunk, Offset(20))
    assert reading.wants(view(6)).checks[BROKER][A0] == EpochQuestion(LeaderEpoch(4), LeaderEpoch(6))


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (end(3, 20), Verdict.SAME),
        (end(3, 99), Verdict.SAME),
        (end(3, 19), Verdict.FETCH_AGAIN),
        (end(2, 10), Verdict.FETCH_AGAIN),
        (end(2, 9), Verdict.TRUNCATED),
        (end(-1, -1), Verdict.TRUNCATED),
    ],
)
def test_what_is_lost_decides_where_to_go_on(answer: EpochEnd, verdict: Verdict) -> None:
    place = Place(A0)
    place.go_to(Offset(10), LeaderEpoch(3))
    place.fetch_offset = Offset(20)  # Ten records were fetched ahead.
    assert judge(place, answer) is verdict


def test_fetching_again_begins_behind_what_was_handed_out() -> None:
    reading = reading_at(10, epoch=3)
    place = reading.place(A0)
    place.trusted_epoch = LeaderEpoch(5)
    reading.came(FetchedChunk(A0, memoryview(b""), Offset(10), last_epoch=LeaderEpoch(4)), Offset(20))
    place.fetch_again()
    assert (place.fetch_offset, place.fetch_epoch, len(place.chunks)) == (10, 3, 0)


def test_the_error_says_where_the_logs_part_if_that_is_known() -> None:
    place = Place(A0)
    place.go_to(Offset(10), LeaderEpoch(3))
    assert truncated(place, end(2, 7)).divergent_offset == 7
    assert "at offset 7" in str(truncated(place, end(2, 7)))
    assert truncated(place, end(-1, -1)).divergent_offset is None


def test_questions_and_answers_are_those_of_the_protocol() -> None:
    request = epochs_request({A0: EpochQuestion(LeaderEpoch(3), LeaderEpoch(5))})
    (asked,) = request.topics[0].partitions
    assert (request.replica_id, asked.current_leader_epoch, asked.leader_epoch) == (-1, 5, 3)
    answer = OffsetForLeaderEpochResponse(
        topics=[OffsetForLeaderTopicResult("a", [EpochEndOffset(0, 0, 2, 7), EpochEndOffset(74, 1)])]
    )
    ends = epoch_ends(answer)
    assert ends[A0] == end(2, 7)
    fenced = ends[TopicPartition(A0.topic, PartitionIndex(1))]
    assert isinstance(fenced, Rejected) and fenced.code is ErrorCode.FENCED_LEADER_EPOCH
