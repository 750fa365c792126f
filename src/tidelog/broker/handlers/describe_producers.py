"""DescribeProducers (key 61), v0 (KIP-664): the producers that a partition remembers, and their open transactions."""

from __future__ import annotations

from tidelog.broker.call import Call
from tidelog.model.errors import ProtocolError
from tidelog.replica.partitions import LedPartitions
from tidelog.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


class DescribeProducersHandler:
    def __init__(self, partitions: LedPartitions) -> None:
        self._partitions = partitions

    def __call__(self, call: Call, request: DescribeProducersRequest) -> DescribeProducersResponse:
        return DescribeProducersResponse(
            topics=[
                TopicResponse(topic.name, [self._describe(topic.name, index) for index in topic.partition_indexes])
                for topic in request.topics
            ]
        )

    def _describe(self, topic: str, index: int) -> PartitionResponse:
        try:
            leader = self._partitions.named(topic, index)
        except ProtocolError as error:
            return PartitionResponse(index, error.code, error.message)
        return PartitionResponse(
            index,
            active_producers=[
                ProducerState(
                    entry.producer_id,
                    entry.epoch,
                    entry.last_sequence,
                    entry.last_timestamp,
                    entry.coordinator_epoch,
                    entry.transaction_first_offset,
                )
                for entry in leader.log.producers.entries()
            ],
        )
