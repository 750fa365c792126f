"""Which partition of `__consumer_offsets` keeps a group. Its leader is the group's coordinator."""

from __future__ import annotations

from typing import Final

from tidelog.model.ids import PartitionIndex
from tidelog.model.java_hash import java_string_hash, partition_of_id

__all__ = ["OFFSETS_TOPIC", "java_string_hash", "partition_for"]

OFFSETS_TOPIC: Final = "__consumer_offsets"


def partition_for(group_id: str, partitions: int) -> PartitionIndex:
    """The partition of a group, the same that Apache Kafka chooses."""
    return partition_of_id(group_id, partitions)
