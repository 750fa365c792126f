"""ListOffsets (key 2), v1-v11. v2: isolation level (KIP-98). v4: leader epoch (KIP-320). v7: maximum timestamp
(KIP-734). v8: earliest local (KIP-405). v9: latest tiered (KIP-1005). v10: timeout for remote look-ups (KIP-1075).
v11: earliest not yet uploaded (KIP-1023)."""

from __future__ import annotations

from typing import Annotated

from tidelog.wire.schema import Message, Request, Response, ignorable, int8, int16, int32, int64, since, string


class ListOffsetsPartitionResponse(Message):
    partition_index: int32 = 0
    error_code: int16 = 0
    timestamp: int64 = -1
    offset: int64 = -1
    leader_epoch: Annotated[int32, since("4+")] = -1


class ListOffsetsTopicResponse(Message):
    name: string = ""
    partitions: list[ListOffsetsPartitionResponse] = []


class ListOffsetsResponse(Response):
    VERSIONS = "1-11"
    FLEXIBLE = "6+"
    API_KEY = 2

    throttle_time_ms: Annotated[int32, since("2+"), ignorable] = 0
    topics: list[ListOffsetsTopicResponse] = []


class ListOffsetsPartition(Message):
    partition_index: int32 = 0
    current_leader_epoch: Annotated[int32, since("4+"), ignorable] = -1
    timestamp: int64 = 0


class ListOffsetsTopic(Message):
    name: string = ""
    partitions: list[ListOffsetsPartition] = []


class ListOffsetsRequest(Request):
    VERSIONS = "1-11"
    FLEXIBLE = "6+"
    API_KEY = 2
    RESPONSE = ListOffsetsResponse

    replica_id: int32 = 0
    isolation_level: Annotated[int8, since("2+")] = 0
    topics: list[ListOffsetsTopic] = []
    timeout_ms: Annotated[int32, since("10+"), ignorable] = 0
