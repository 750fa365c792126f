"""AlterShareGroupOffsets (key 91), v0, KIP-932."""

from __future__ import annotations

from typing import Annotated

from tidelog.model.ids import ZERO_UUID
from tidelog.wire.schema import Message, Request, Response, int16, int32, int64, nullable, string, uuid


class AlterShareGroupOffsetsResponsePartition(Message):
    partition_index: int32 = 0
    error_code: int16 = 0
    error_message: Annotated[string | None, nullable("0+")] = None


class AlterShareGroupOffsetsResponseTopic(Message):
    topic_name: string = ""
    topic_id: uuid = ZERO_UUID
    partitions: list[AlterShareGroupOffsetsResponsePartition] = []


class AlterShareGroupOffsetsResponse(Response):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 91

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: Annotated[string | None, nullable("0+")] = None
    responses: list[AlterShareGroupOffsetsResponseTopic] = []


class AlterShareGroupOffsetsRequestPartition(Message):
    partition_index: int32 = 0
    start_offset: int64 = 0


class AlterShareGroupOffsetsRequestTopic(Message):
    topic_name: string = ""
    partitions: list[AlterShareGroupOffsetsRequestPartition] = []


class AlterShareGroupOffsetsRequest(Request):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 91
    RESPONSE = AlterShareGroupOffsetsResponse

    group_id: string = ""
    topics: list[AlterShareGroupOffsetsRequestTopic] = []
