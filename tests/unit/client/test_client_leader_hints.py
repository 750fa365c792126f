from __future__ import annotations

from uuid import UUID

import pytest

from tidelog.client.core.leader_hints import LeaderHint, follow_hints, hints_for_producer, hints_for_reader
from tidelog.client.core.metadata import ClusterView, Node, Partition, Topic
from tidelog.model.ids import LeaderEpoch, NodeId, PartitionIndex, TopicName, TopicPartition
from tidelog.wire.messages import fetch, produce

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)
TIDES = TopicName("tides")
TIDES_ID = UUID(int=7)
PLACE = TopicPartition(TIDES, PartitionIndex(1))


def partition(index: int) -> Partition:
    return Partition(PartitionIndex(index), ONE, LeaderEpoch(4), (ONE, TWO), (ONE, TWO))


VIEW = ClusterView(
    "cluster", ONE, {ONE: Node(ONE, "one", 1)}, {TIDES: Topic(TIDES, TIDES_ID, partitions=(partition(0), partition(1)))}
)
ENDPOINTS = [produce.NodeEndpoint(2, "two", 2, "rack")]


def test_a_hint_changes_the_leader_of_its_partition_and_says_where_that_is() -> None:
    view, moved = follow_hints(VIEW, [LeaderHint(PLACE, TWO, LeaderEpoch(5))], ENDPOINTS)
    assert moved == {PLACE}
    assert view.leader(PLACE) == Node(TWO, "two", 2, "rack")
    assert view.leader(TopicPartition(TIDES, PartitionIndex(0))) == Node(ONE, "one", 1)


@pytest.mark.parametrize(
    "hint",
    [
        LeaderHint(PLACE, TWO, LeaderEpoch(4)),
        LeaderHint(PLACE, TWO, LeaderEpoch(3)),
        LeaderHint(PLACE, THREE, LeaderEpoch(5)),
        LeaderHint(TopicPartition(TIDES, PartitionIndex(9)), TWO, LeaderEpoch(5)),
        LeaderHint(TopicPartition(TopicName("ebb"), PartitionIndex(0)), TWO, LeaderEpoch(5)),
    ],
    ids=["the same epoch", "an older leader", "a broker without an address", "an unknown partition", "unknown topic"],
)
def test_a_hint_that_says_nothing_new_or_nothing_usable_changes_nothing(hint: LeaderHint) -> None:
    assert follow_hints(VIEW, [hint], ENDPOINTS) == (VIEW, set())


def test_hints_are_read_out_of_answers_by_topic_id_and_by_name() -> None:
    refused = produce.PartitionProduceResponse(1, 6, current_leader=produce.LeaderIdAndEpoch(2, 5))
    fine = produce.PartitionProduceResponse(0)
    for topic in (
        produce.TopicProduceResponse("", TIDES_ID, [fine, refused]),
        produce.TopicProduceResponse("tides", partition_responses=[fine, refused]),
    ):
        answer = produce.ProduceResponse([topic])
        assert hints_for_producer(answer, {TIDES_ID: TIDES}) == [LeaderHint(PLACE, TWO, LeaderEpoch(5))]
    data = fetch.PartitionData(1, 6, current_leader=fetch.LeaderIdAndEpoch(2, 5))
    read = fetch.FetchResponse(responses=[fetch.FetchableTopicResponse("", TIDES_ID, [fetch.PartitionData(0), data])])
    assert hints_for_reader(read, {TIDES_ID: TIDES}) == [LeaderHint(PLACE, TWO, LeaderEpoch(5))]
