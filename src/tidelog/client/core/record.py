"""The records that go into a producer and come out of a consumer."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from tidelog.model.ids import LeaderEpoch, Offset, PartitionIndex, TopicName

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]


class ConsumerRecord(msgspec.Struct, frozen=True, gc=False):
    """One record as a consumer reads it. Key and value are bytes, None, or what the consumer's deserializers make."""

    topic: TopicName
    partition: PartitionIndex
    offset: Offset
    timestamp_ms: int
    key: Any
    value: Any
    headers: Headers = ()
    is_log_append_time: bool = False
    leader_epoch: LeaderEpoch | None = None


class RecordMetadata(msgspec.Struct, frozen=True, gc=False):
    """Where a record was written. The offset is -1 when the broker did not tell (acks=0)."""

    topic: TopicName
    partition: PartitionIndex
    offset: Offset
    timestamp_ms: int
