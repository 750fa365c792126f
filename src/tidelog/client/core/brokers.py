"""Requests about brokers and their directories, and what their answers mean. `client/admin.py` sends them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidelog.client.core.described import ClusterDescription, LogDir, ReplicaSize
from tidelog.client.core.metadata import Node
from tidelog.client.errors import check, code_of
from tidelog.model.ids import NodeId, PartitionIndex, TopicName, TopicPartition
from tidelog.wire.messages.describe_cluster import DescribeClusterResponse
from tidelog.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)


def described_cluster(answer: DescribeClusterResponse) -> ClusterDescription:
    check(answer.error_code, answer.error_message)
    return ClusterDescription(
        answer.cluster_id,
        NodeId(answer.controller_id),
        tuple(
            Node(NodeId(broker.broker_id), broker.host, broker.port, broker.rack)
            for broker in sorted(answer.brokers, key=lambda broker: broker.broker_id)
        ),
        frozenset(NodeId(broker.broker_id) for broker in answer.brokers if broker.is_fenced),
    )


def describe_log_dirs(topics: Mapping[TopicName, Sequence[PartitionIndex]] | None) -> DescribeLogDirsRequest:
    if topics is None:
        return DescribeLogDirsRequest(None)
    return DescribeLogDirsRequest(
        [DescribableLogDirTopic(name, list(partitions)) for name, partitions in topics.items()]
    )


def described_log_dirs(answer: DescribeLogDirsResponse) -> list[LogDir]:
    check(answer.error_code)
    return [
        LogDir(result.log_dir, code_of(result.error_code), _replicas(result), result.total_bytes, result.usable_bytes)
        for result in answer.results
    ]


def _replicas(directory: DescribeLogDirsResult) -> tuple[ReplicaSize, ...]:
    return tuple(
        ReplicaSize(
            TopicPartition(TopicName(topic.name), PartitionIndex(partition.partition_index)),
            partition.partition_size,
            partition.offset_lag,
            partition.is_future_key,
        )
        for topic in directory.topics
        for partition in topic.partitions
    )
