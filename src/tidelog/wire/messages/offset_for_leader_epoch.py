"""OffsetForLeaderEpoch (key 23), v2-v4. v2: current leader epoch (KIP-320). v3: replica id (KIP-392)."""

from __future__ import annotations

from typing import Annotated

from tidelog.wire.schema import Message, Request, Response, ignorable, int16, int32, int64, since, string


class EpochEndOffset(Message):
    error_code: int16 = 0
    partition: int32 = 0
    leader_epoch: int32 = -1
    end_offset: int64 = -1


class OffsetForLeaderTopicResult(Message):
    topic: string = ""
    partitions: list[EpochEndOffset] = []


class OffsetForLeaderEpochResponse(Response):
    VERSIONS = "2-4"
    FLEXIBLE = "4+"
    API_KEY = 23

    throttle_time_ms: int32 = 0
    topics: list[OffsetForLeaderTopicResult] = []


class OffsetForLeaderPartition(Message):
    partition: int32 = 0
    current_leader_epoch: int32 = -1
    leader_epoch: int32 = 0


class OffsetForLeaderTopic(Message):
    topic: string = ""
    partitions: list[OffsetForLeaderPartition] = []


class OffsetForLeaderEpochRequest(Request):
    VERSIONS = "2-4"
    FLEXIBLE = "4+"
    API_KEY = 23
    RESPONSE = OffsetForLeaderEpochResponse

    replica_id: Annotated[int32, since("3+"), ignorable] = -2
    topics: list[OffsetForLeaderTopic] = []
