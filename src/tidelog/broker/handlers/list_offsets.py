"""ListOffsets (key 2), v1-v11. v2: isolation level. v4: leader epochs. v7: max timestamp (KIP-734). v8, v9, v11:
tiered storage."""

from __future__ import annotations

from typing import Final

from tidelog.broker.call import Call
from tidelog.model.errors import ProtocolError
from tidelog.model.ids import ZERO_UUID
from tidelog.replica.leader import PartitionLeader
from tidelog.replica.partitions import LedPartitions
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
# Without tiered storage everything is local, so the earliest local offset is the earliest one,
EARLIEST_LOCAL: Final = -4
# and nothing is in remote storage or on its way there.
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6
READ_COMMITTED: Final = 1
FIRST_VERSION_WITH_EPOCHS: Final = 4
# Who asks: a consumer sees up to the high watermark; a replica, or a tool that looks at one, up to its end.
CONSUMER: Final = -1
DEBUGGING: Final = -2
NO_EPOCH: Final = -1


class ListOffsetsHandler:
    def __init__(self, partitions: LedPartitions) -> None:
        self._partitions = partitions

    def __call__(self, call: Call, request: ListOffsetsRequest) -> ListOffsetsResponse:
        with_epochs = call.header.api_version >= FIRST_VERSION_WITH_EPOCHS
        to_end = request.replica_id != CONSUMER
        anywhere = request.replica_id == DEBUGGING
        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    topic.name,
                    [
                        self._replica_end(topic.name, partition, with_epochs)
                        if anywhere and partition.timestamp == LATEST
                        else self._answer(topic.name, partition, request.isolation_level, with_epochs, to_end)
                        for partition in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _answer(
        self, topic: str, wanted: ListOffsetsPartition, isolation: int, with_epochs: bool, to_end: bool
    ) -> ListOffsetsPartitionResponse:
        try:
            leader = self._partitions.named(topic, wanted.partition_index)
            leader.check_epoch(wanted.current_leader_epoch)
            found: tuple[int, int, int] = -1, leader.log.end_offset, leader.epoch
            if not to_end or wanted.timestamp != LATEST:
                found = find_offset(leader, wanted.timestamp, isolation == READ_COMMITTED)
        except ProtocolError as error:
            return ListOffsetsPartitionResponse(wanted.partition_index, error.code)
        timestamp, offset, epoch = found
        return ListOffsetsPartitionResponse(
            wanted.partition_index, 0, timestamp, offset, epoch if with_epochs else NO_EPOCH
        )

    def _replica_end(self, topic: str, wanted: ListOffsetsPartition, with_epochs: bool) -> ListOffsetsPartitionResponse:
        """Where the log on this broker ends, whether it leads or follows: for who looks at a cluster from outside."""
        follower = self._partitions.follower(topic, ZERO_UUID, wanted.partition_index)
        if follower is None:
            return self._answer(topic, wanted, 0, with_epochs, True)
        epoch = follower.epoch if with_epochs else NO_EPOCH
        return ListOffsetsPartitionResponse(wanted.partition_index, 0, -1, follower.log.end_offset, epoch)


def find_offset(leader: PartitionLeader, timestamp: int, read_committed: bool) -> tuple[int, int, int]:
    """(timestamp, offset, leader epoch) for a time or one of the special ones; -1 stands for none."""
    log = leader.log
    end = leader.last_stable_offset if read_committed else leader.high_watermark
    if timestamp == LATEST:
        return -1, end, leader.epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return -1, log.start_offset, log.epochs.epoch_at(log.start_offset)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return -1, -1, -1
    found = log.max_timestamp_offset() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
    if found is None or found.offset >= end:
        return -1, -1, -1
    return found.timestamp, found.offset, log.epochs.epoch_at(found.offset)
