"""Requests about offsets of partitions, and what their answers mean: the offset at a time, delete what is before."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Final, TypeVar

from tidelog.client.core.described import OffsetAt
from tidelog.client.errors import Rejected, rejection
from tidelog.model.ids import LeaderEpoch, Offset, PartitionIndex, TopicName, TopicPartition
from tidelog.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

# A client is no replica.
CONSUMER: Final = -1

Q = TypeVar("Q")


def list_offsets(timestamps: Mapping[TopicPartition, int], read_committed: bool, timeout_ms: int) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        CONSUMER,
        int(read_committed),
        [
            ListOffsetsTopic(name, [ListOffsetsPartition(index, timestamp=time) for index, time in partitions])
            for name, partitions in by_topic(timestamps).items()
        ],
        timeout_ms,
    )


def listed_offsets(answer: ListOffsetsResponse) -> dict[TopicPartition, OffsetAt | Rejected]:
    return {
        TopicPartition(TopicName(topic.name), PartitionIndex(partition.partition_index)): rejection(
            partition.error_code
        )
        or OffsetAt(Offset(partition.offset), partition.timestamp, LeaderEpoch(partition.leader_epoch))
        for topic in answer.topics
        for partition in topic.partitions
    }


def delete_records(before: Mapping[TopicPartition, Offset], timeout_ms: int) -> DeleteRecordsRequest:
    return DeleteRecordsRequest(
        [
            DeleteRecordsTopic(name, [DeleteRecordsPartition(index, offset) for index, offset in partitions])
            for name, partitions in by_topic(before).items()
        ],
        timeout_ms,
    )


def deleted_records(answer: DeleteRecordsResponse) -> dict[TopicPartition, Offset | Rejected]:
    """Where each partition begins now."""
    answers: dict[TopicPartition, Offset | Rejected] = {}
    for topic in answer.topics:
        for partition in topic.partitions:
            key = TopicPartition(TopicName(topic.name), PartitionIndex(partition.partition_index))
            # Offset 0 is false: no `or` here.
            rejected = rejection(partition.error_code)
            answers[key] = Offset(partition.low_watermark) if rejected is None else rejected
    return answers


def by_topic(partitions: Mapping[TopicPartition, Q]) -> dict[TopicName, list[tuple[PartitionIndex, Q]]]:
    """The same by topic, as requests nest them."""
    topics: defaultdict[TopicName, list[tuple[PartitionIndex, Q]]] = defaultdict(list)
    for partition, question in partitions.items():
        topics[partition.topic].append((partition.partition, question))
    return topics
