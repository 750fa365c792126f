"""OffsetForLeaderEpoch (key 23), v2-v4: where the records of an epoch end (KIP-101, KIP-320)."""

from __future__ import annotations

from tidelog.broker.call import Call
from tidelog.model.errors import ProtocolError
from tidelog.model.ids import LeaderEpoch
from tidelog.replica.partitions import LedPartitions
from tidelog.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


class OffsetForLeaderEpochHandler:
    def __init__(self, partitions: LedPartitions) -> None:
        self._partitions = partitions

    def __call__(self, call: Call, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
        return OffsetForLeaderEpochResponse(
            topics=[
                OffsetForLeaderTopicResult(
                    topic.topic, [self._answer(topic.topic, partition) for partition in topic.partitions]
                )
                for topic in request.topics
            ]
        )

    def _answer(self, topic: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
        try:
            leader = self._partitions.named(topic, wanted.partition)
            leader.check_epoch(wanted.current_leader_epoch)
        except ProtocolError as error:
            return EpochEndOffset(error.code, wanted.partition)
        epoch, end_offset = leader.end_offset_for_epoch(LeaderEpoch(wanted.leader_epoch))
        return EpochEndOffset(0, wanted.partition, epoch, end_offset)
