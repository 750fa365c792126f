"""DescribeTopicPartitions (key 75), v0 (KIP-966): topics page by page, with a cursor, and their eligible leader
replicas."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.broker.call import Call
from tidelog.metadata.image import ClusterImage, PartitionRegistration, TopicImage
from tidelog.model import operations
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import NO_NODE, PartitionIndex
from tidelog.model.names import check_topic_name, is_internal
from tidelog.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)


class DescribeTopicPartitionsHandler:
    def __init__(self, image: Callable[[], ClusterImage], partitions_max: int) -> None:
        self._image = image
        self._partitions_max = partitions_max

    def __call__(self, call: Call, request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
        image = self._image()
        names = sorted({topic.name for topic in request.topics} or image.topics_by_name)
        first_partition = 0
        if request.cursor is not None:
            first_partition = max(0, request.cursor.partition_index)
            names = [name for name in names if name >= request.cursor.topic_name]
            if not names or names[0] != request.cursor.topic_name:
                first_partition = 0
        left = (
            min(self._partitions_max, request.response_partition_limit) if request.response_partition_limit > 0 else 1
        )
        response = DescribeTopicPartitionsResponse()
        for name in names:
            topic = image.topic(name)
            if topic is None:
                response.topics.append(_unknown(name, asked_for_all=not request.topics))
                continue
            if left <= 0:
                response.next_cursor = Cursor(name, 0)
                break
            described, next_partition = _describe(image, topic, first_partition, left)
            first_partition = 0
            left -= len(described.partitions)
            response.topics.append(described)
            if next_partition is not None:
                response.next_cursor = Cursor(name, next_partition)
                break
        return response


def _describe(
    image: ClusterImage, topic: TopicImage, first: int, partitions_max: int
) -> tuple[DescribeTopicPartitionsResponseTopic, int | None]:
    end = min(len(topic.partitions), first + partitions_max)
    described = DescribeTopicPartitionsResponseTopic(
        0,
        topic.name,
        topic.topic_id,
        is_internal(topic.name),
        [_partition(image, index, topic.partitions[PartitionIndex(index)]) for index in range(first, end)],
        # This one is not asked whether it wants to know.
        operations.OF_TOPIC,
    )
    return described, end if end < len(topic.partitions) else None


def _partition(
    image: ClusterImage, index: int, partition: PartitionRegistration
) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        ErrorCode.NONE if partition.leader != NO_NODE else ErrorCode.LEADER_NOT_AVAILABLE,
        index,
        partition.leader,
        partition.leader_epoch,
        list(partition.replicas),
        list(partition.isr),
        list(partition.eligible_leader_replicas),
        list(partition.last_known_elr),
        [*image.offline_replicas(partition)],
    )


def _unknown(name: str, asked_for_all: bool) -> DescribeTopicPartitionsResponseTopic:
    assert not asked_for_all
    try:
        check_topic_name(name)
    except ProtocolError as error:
        return DescribeTopicPartitionsResponseTopic(error.code, name)
    return DescribeTopicPartitionsResponseTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name)
