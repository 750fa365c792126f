"""Requests about topics, and what their answers mean. `client/admin.py` sends them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tidelog.client.core.described import CreatedTopic, NewTopic, PartitionDescription, TopicDescription
from tidelog.client.core.metadata import Topic
from tidelog.client.errors import Rejected, rejection
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, NodeId, PartitionIndex, TopicName
from tidelog.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from tidelog.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from tidelog.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)


def create_topics(topics: Iterable[NewTopic], timeout_ms: int, validate_only: bool) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        [
            CreatableTopic(
                topic.name,
                topic.partitions,
                topic.replication_factor,
                [CreatableReplicaAssignment(index, list(nodes)) for index, nodes in enumerate(topic.assignments)],
                [CreatableTopicConfig(name, value) for name, value in topic.configs.items()],
            )
            for topic in topics
        ],
        timeout_ms,
        validate_only,
    )


def created_topics(answer: CreateTopicsResponse) -> dict[TopicName, CreatedTopic | Rejected]:
    return {
        TopicName(topic.name): rejection(topic.error_code, topic.error_message)
        or CreatedTopic(TopicName(topic.name), topic.topic_id, topic.num_partitions, topic.replication_factor)
        for topic in answer.topics
    }


def delete_topics(names: Sequence[TopicName], timeout_ms: int) -> DeleteTopicsRequest:
    # Version 6 asks in `topics`, those before in `topic_names`.
    return DeleteTopicsRequest([DeleteTopicState(name) for name in names], list(names), timeout_ms)


def deleted_topics(answer: DeleteTopicsResponse) -> dict[TopicName, Rejected | None]:
    return {TopicName(topic.name or ""): rejection(topic.error_code, topic.error_message) for topic in answer.responses}


def create_partitions(
    counts: Mapping[TopicName, int],
    assignments: Mapping[TopicName, Sequence[Sequence[NodeId]]],
    timeout_ms: int,
    validate_only: bool,
) -> CreatePartitionsRequest:
    def assignment(name: TopicName) -> list[CreatePartitionsAssignment] | None:
        nodes = assignments.get(name)
        return None if nodes is None else [CreatePartitionsAssignment(list(replicas)) for replicas in nodes]

    topics = [CreatePartitionsTopic(name, count, assignment(name)) for name, count in counts.items()]
    return CreatePartitionsRequest(topics, timeout_ms, validate_only)


def created_partitions(answer: CreatePartitionsResponse) -> dict[TopicName, Rejected | None]:
    return {TopicName(topic.name): rejection(topic.error_code, topic.error_message) for topic in answer.results}


def describe_topics(
    names: Iterable[TopicName], partitions_max: int, cursor: Cursor | None
) -> DescribeTopicPartitionsRequest:
    return DescribeTopicPartitionsRequest([TopicRequest(name) for name in names], partitions_max, cursor)


class DescribedTopics:
    """Topics as they come in page after page: a topic with many partitions is in more than one."""

    def __init__(self) -> None:
        self._topics: dict[TopicName, TopicDescription | Rejected] = {}

    def add(self, page: Iterable[DescribeTopicPartitionsResponseTopic]) -> None:
        for topic in page:
            name = TopicName(topic.name or "")
            before = self._topics.get(name)
            partitions = before.partitions if isinstance(before, TopicDescription) else ()
            self._topics[name] = rejection(topic.error_code, _missing(name, topic.error_code)) or TopicDescription(
                name, topic.topic_id, topic.is_internal, partitions + _partitions(topic)
            )

    def all(self) -> dict[TopicName, TopicDescription | Rejected]:
        return dict(self._topics)


def described_by_metadata(topic: Topic) -> TopicDescription | Rejected:
    """What Metadata tells of a topic, for brokers that do not serve DescribeTopicPartitions."""
    if topic.error:
        return Rejected(topic.error, _missing(topic.name, topic.error))
    return TopicDescription(
        topic.name,
        topic.id,
        topic.internal,
        tuple(
            PartitionDescription(
                partition.index,
                partition.leader,
                partition.leader_epoch,
                partition.replicas,
                partition.isr,
                partition.offline,
            )
            for partition in topic.partitions
        ),
    )


def _missing(name: TopicName, error_code: int) -> str | None:
    return f"Topic '{name}' does not exist." if error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else None


def _partitions(topic: DescribeTopicPartitionsResponseTopic) -> tuple[PartitionDescription, ...]:
    return tuple(
        PartitionDescription(
            PartitionIndex(partition.partition_index),
            NodeId(partition.leader_id),
            LeaderEpoch(partition.leader_epoch),
            _nodes(partition.replica_nodes),
            _nodes(partition.isr_nodes),
            _nodes(partition.offline_replicas),
            None if partition.eligible_leader_replicas is None else _nodes(partition.eligible_leader_replicas),
            None if partition.last_known_elr is None else _nodes(partition.last_known_elr),
        )
        for partition in topic.partitions
    )


def _nodes(ids: Iterable[int]) -> tuple[NodeId, ...]:
    return tuple(map(NodeId, ids))
