"""The blocking client for reassignments: let partitions have other replicas, see which are on their way, call it off.

Used by `tidelog cluster reassign` and `kafka-reassign-partitions`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tidelog.client.cluster import Cluster
from tidelog.client.core.offsets import by_topic
from tidelog.client.deadline import Deadline
from tidelog.client.errors import Rejected, check, rejection
from tidelog.model.ids import NodeId, PartitionIndex, TopicName, TopicPartition
from tidelog.wire.messages import alter_partition_reassignments as alter
from tidelog.wire.messages import list_partition_reassignments as listing


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A partition whose replicas change: all that hold it now, those that come, those that go."""

    replicas: tuple[NodeId, ...]
    adding: tuple[NodeId, ...]
    removing: tuple[NodeId, ...]


def alter_reassignments(
    cluster: Cluster, wanted: Mapping[TopicPartition, Sequence[NodeId] | None]
) -> dict[TopicPartition, Rejected | None]:
    """Let partitions move to other replicas, the preferred leader first; None calls a move off."""
    topics = [
        alter.ReassignableTopic(
            name,
            [
                alter.ReassignablePartition(index, None if replicas is None else [int(node) for node in replicas])
                for index, replicas in rows
            ],
        )
        for name, rows in by_topic(wanted).items()
    ]

    def ask(deadline: Deadline) -> dict[TopicPartition, Rejected | None]:
        request = alter.AlterPartitionReassignmentsRequest(int(deadline.remaining_s() * 1000), topics=topics)
        answer = cluster.call_controller(request, alter.AlterPartitionReassignmentsResponse, deadline)
        check(answer.error_code, answer.error_message)
        return {
            TopicPartition(TopicName(topic.name), PartitionIndex(row.partition_index)): rejection(
                row.error_code, row.error_message
            )
            for topic in answer.responses
            for row in topic.partitions
        }

    return cluster.retry(ask)


def list_reassignments(
    cluster: Cluster, partitions: Iterable[TopicPartition] | None = None
) -> dict[TopicPartition, Reassignment]:
    """The reassignments that are under way, of some partitions or of all."""
    topics = None
    if partitions is not None:
        named = by_topic(dict.fromkeys(partitions))
        topics = [
            listing.ListPartitionReassignmentsTopics(name, [int(index) for index, _ in rows])
            for name, rows in named.items()
        ]

    def ask(deadline: Deadline) -> dict[TopicPartition, Reassignment]:
        request = listing.ListPartitionReassignmentsRequest(int(deadline.remaining_s() * 1000), topics)
        answer = cluster.call_controller(request, listing.ListPartitionReassignmentsResponse, deadline)
        check(answer.error_code, answer.error_message)
        return {
            TopicPartition(TopicName(topic.name), PartitionIndex(row.partition_index)): Reassignment(
                tuple(map(NodeId, row.replicas)),
                tuple(map(NodeId, row.adding_replicas)),
                tuple(map(NodeId, row.removing_replicas)),
            )
            for topic in answer.topics
            for row in topic.partitions
        }

    return cluster.retry(ask)
