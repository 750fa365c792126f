"""Leader hints (KIP-951): a broker that does not lead a partition says who does, and where that broker listens.

The engines of producer and consumer read hints out of answers and go on at once with the view that they make; the
metadata is asked for all the same. A hint of an older leader than is known is ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tidelog.client.core.metadata import ClusterView, Node
from tidelog.model.ids import LeaderEpoch, NodeId, PartitionIndex, TopicId, TopicName, TopicPartition
from tidelog.wire.messages import fetch, produce


@dataclass(frozen=True, slots=True)
class LeaderHint:
    """Who leads a partition now."""

    partition: TopicPartition
    leader: NodeId
    epoch: LeaderEpoch


def hints_for_producer(answer: produce.ProduceResponse, names: Mapping[TopicId, TopicName]) -> list[LeaderHint]:
    """The hints in an answer to Produce."""
    return [
        LeaderHint(
            TopicPartition(
                TopicName(topic.name) or names.get(topic.topic_id, TopicName("")), PartitionIndex(one.index)
            ),
            NodeId(one.current_leader.leader_id),
            LeaderEpoch(one.current_leader.leader_epoch),
        )
        for topic in answer.responses
        for one in topic.partition_responses
        if one.current_leader.leader_id >= 0
    ]


def hints_for_reader(answer: fetch.FetchResponse, names: Mapping[TopicId, TopicName]) -> list[LeaderHint]:
    """The hints in an answer to Fetch."""
    return [
        LeaderHint(
            TopicPartition(names.get(topic.topic_id, TopicName(topic.topic)), PartitionIndex(one.partition_index)),
            NodeId(one.current_leader.leader_id),
            LeaderEpoch(one.current_leader.leader_epoch),
        )
        for topic in answer.responses
        for one in topic.partitions
        if one.current_leader.leader_id >= 0
    ]


def follow_hints(
    view: ClusterView,
    hints: Iterable[LeaderHint],
    endpoints: Iterable[produce.NodeEndpoint | fetch.NodeEndpoint],
) -> tuple[ClusterView, set[TopicPartition]]:
    """The view after the hints, and the partitions for which it has another leader now."""
    nodes = dict(view.nodes)
    for one in endpoints:
        nodes[NodeId(one.node_id)] = Node(NodeId(one.node_id), one.host, one.port, one.rack)
    topics = dict(view.topics)
    moved = set()
    for hint in hints:
        known = view.partition(hint.partition)
        if known is None or hint.epoch <= known.leader_epoch or hint.leader not in nodes:
            continue
        topic = topics[hint.partition.topic]
        led = replace(known, leader=hint.leader, leader_epoch=hint.epoch)
        topics[topic.name] = replace(
            topic, partitions=tuple(led if one.index == known.index else one for one in topic.partitions)
        )
        moved.add(hint.partition)
    return (replace(view, nodes=nodes, topics=topics), moved) if moved else (view, moved)
