"""Ids and positions as distinct types, so that an offset is never passed where an epoch is meant."""

from __future__ import annotations

from typing import Final, NamedTuple, NewType
from uuid import UUID

Offset = NewType("Offset", int)
NodeId = NewType("NodeId", int)
LeaderEpoch = NewType("LeaderEpoch", int)
PartitionIndex = NewType("PartitionIndex", int)
ProducerId = NewType("ProducerId", int)
ProducerEpoch = NewType("ProducerEpoch", int)
TopicName = NewType("TopicName", str)
TopicId = UUID

NO_NODE: Final = NodeId(-1)
NO_EPOCH: Final = LeaderEpoch(-1)
NO_OFFSET: Final = Offset(-1)
NO_PRODUCER: Final = ProducerId(-1)
NO_TIMESTAMP: Final = -1
ZERO_UUID: Final = UUID(int=0)


class TopicPartition(NamedTuple):
    """One partition of one topic; also the name of its folder on disk."""

    topic: TopicName
    partition: PartitionIndex

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
