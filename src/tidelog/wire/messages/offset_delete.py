"""OffsetDelete (key 47), v0. Deletes committed offsets of a group (KIP-496)."""

from __future__ import annotations

from tidelog.wire.schema import Message, Request, Response, int16, int32, string


class OffsetDeleteResponsePartition(Message):
    partition_index: int32 = 0
    error_code: int16 = 0


class OffsetDeleteResponseTopic(Message):
    name: string = ""
    partitions: list[OffsetDeleteResponsePartition] = []


class OffsetDeleteResponse(Response):
    VERSIONS = "0"
    FLEXIBLE = "none"
    API_KEY = 47

    error_code: int16 = 0
    throttle_time_ms: int32 = 0
    topics: list[OffsetDeleteResponseTopic] = []


class OffsetDeleteRequestPartition(Message):
    partition_index: int32 = 0


class OffsetDeleteRequestTopic(Message):
    name: string = ""
    partitions: list[OffsetDeleteRequestPartition] = []


class OffsetDeleteRequest(Request):
    VERSIONS = "0"
    FLEXIBLE = "none"
    API_KEY = 47
    RESPONSE = OffsetDeleteResponse

    group_id: string = ""
    topics: list[OffsetDeleteRequestTopic] = []
