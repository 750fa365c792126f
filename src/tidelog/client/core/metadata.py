"""What a client knows of a cluster: brokers, topics, leaders. Immutable; a new answer makes a new view.

Built from Metadata answers by `client/cluster.py`, read by everything that routes requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from tidelog.client.errors import code_of
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import (
    NO_NODE,
    ZERO_UUID,
    LeaderEpoch,
    NodeId,
    PartitionIndex,
    TopicId,
    TopicName,
    TopicPartition,
)
from tidelog.wire.messages.metadata import MetadataResponse, MetadataResponseTopic


@dataclass(frozen=True, slots=True)
class Node:
    """Where a broker listens."""

    id: NodeId
    host: str
    port: int
    rack: str | None = None

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition as the cluster described it."""

    index: PartitionIndex
    leader: NodeId
    leader_epoch: LeaderEpoch
    replicas: tuple[NodeId, ...]
    isr: tuple[NodeId, ...]
    offline: tuple[NodeId, ...] = ()


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic with its partitions by index, or the error that stands in its place."""

    name: TopicName
    id: TopicId = ZERO_UUID
    internal: bool = False
    partitions: tuple[Partition, ...] = ()
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class ClusterView:
    """All that is known."""

    cluster_id: str | None = None
    controller: NodeId = NO_NODE
    nodes: Mapping[NodeId, Node] = field(default_factory=dict)
    topics: Mapping[TopicName, Topic] = field(default_factory=dict)

    def partition(self, topic_partition: TopicPartition) -> Partition | None:
        """The partition, if it is known."""
        topic = self.topics.get(topic_partition.topic)
        if topic is None or topic_partition.partition >= len(topic.partitions):
            return None
        return topic.partitions[topic_partition.partition]

    def leader(self, topic_partition: TopicPartition) -> Node | None:
        """Who leads a partition, if it is known and there is one."""
        partition = self.partition(topic_partition)
        return None if partition is None else self.nodes.get(partition.leader)

    def without(self, topics: Iterable[TopicName]) -> ClusterView:
        """The same view after these topics have been found to be out of date."""
        stale = set(topics)
        return replace(self, topics={name: topic for name, topic in self.topics.items() if name not in stale})


NOTHING_KNOWN: Final = ClusterView()


def view_after(known: ClusterView, answer: MetadataResponse) -> ClusterView:
    """The view after an answer: topics that it names are replaced, others stay."""
    topics = dict(known.topics)
    topics.update((topic.name, topic) for topic in map(topic_of, answer.topics))
    return ClusterView(
        cluster_id=answer.cluster_id,
        controller=NodeId(answer.controller_id),
        nodes={
            NodeId(broker.node_id): Node(NodeId(broker.node_id), broker.host, broker.port, broker.rack)
            for broker in answer.brokers
        },
        topics=topics,
    )


def topic_of(answer: MetadataResponseTopic) -> Topic:
    """A topic as the answer describes it."""
    return Topic(
        name=TopicName(answer.name or ""),
        id=answer.topic_id,
        internal=answer.is_internal,
        partitions=tuple(
            Partition(
                index=PartitionIndex(partition.partition_index),
                leader=NodeId(partition.leader_id),
                leader_epoch=LeaderEpoch(partition.leader_epoch),
                replicas=tuple(map(NodeId, partition.replica_nodes)),
                isr=tuple(map(NodeId, partition.isr_nodes)),
                offline=tuple(map(NodeId, partition.offline_replicas)),
            )
            for partition in sorted(answer.partitions, key=lambda partition: partition.partition_index)
        ),
        error=code_of(answer.error_code),
    )
