"""DeleteRecords (key 21), v0-v2: moves the start of a partition's log (KIP-107)."""

from __future__ import annotations

from tidelog.broker.call import Call
from tidelog.model.errors import ProtocolError
from tidelog.model.ids import Offset
from tidelog.replica.partitions import LedPartitions
from tidelog.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)


class DeleteRecordsHandler:
    def __init__(self, partitions: LedPartitions) -> None:
        self._partitions = partitions

    def __call__(self, call: Call, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
        return DeleteRecordsResponse(
            topics=[
                DeleteRecordsTopicResult(
                    topic.name, [self._delete(topic.name, partition) for partition in topic.partitions]
                )
                for topic in request.topics
            ]
        )

    def _delete(self, topic: str, wanted: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
        try:
            leader = self._partitions.named(topic, wanted.partition_index)
            low_watermark = leader.delete_records_before(Offset(wanted.offset))
        except ProtocolError as error:
            return DeleteRecordsPartitionResult(wanted.partition_index, -1, error.code)
        return DeleteRecordsPartitionResult(wanted.partition_index, low_watermark)
