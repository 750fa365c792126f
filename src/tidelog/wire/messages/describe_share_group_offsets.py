"""DescribeShareGroupOffsets (key 90), v0-v1, KIP-932. v1: lag (KIP-1226)."""

from __future__ import annotations

from typing import Annotated

from tidelog.model.ids import ZERO_UUID
from tidelog.wire.schema import (
    Message,
    Request,
    Response,
    ignorable,
    int16,
    int32,
    int64,
    nullable,
    since,
    string,
    uuid,
)


class DescribeShareGroupOffsetsResponsePartition(Message):
    partition_index: int32 = 0
    start_offset: int64 = 0
    leader_epoch: int32 = 0
    lag: Annotated[int64, since("1+"), ignorable] = -1
    error_code: int16 = 0
    error_message: Annotated[string | None, nullable("0+")] = None


class DescribeShareGroupOffsetsResponseTopic(Message):
    topic_name: string = ""
    topic_id: uuid = ZERO_UUID
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = []


class DescribeShareGroupOffsetsResponseGroup(Message):
    group_id: string = ""
    topics: list[DescribeShareGroupOffsetsResponseTopic] = []
    error_code: int16 = 0
    error_message: Annotated[string | None, nullable("0+")] = None


class DescribeShareGroupOffsetsResponse(Response):
    VERSIONS = "0-1"
    FLEXIBLE = "0+"
    API_KEY = 90

    throttle_time_ms: int32 = 0
    groups: list[DescribeShareGroupOffsetsResponseGroup] = []


class DescribeShareGroupOffsetsRequestTopic(Message):
    topic_name: string = ""
    partitions: list[int32] = []


class DescribeShareGroupOffsetsRequestGroup(Message):
    group_id: string = ""
    topics: Annotated[list[DescribeShareGroupOffsetsRequestTopic] | None, nullable("0+")] = []


class DescribeShareGroupOffsetsRequest(Request):
    VERSIONS = "0-1"
    FLEXIBLE = "0+"
    API_KEY = 90
    RESPONSE = DescribeShareGroupOffsetsResponse

    groups: list[DescribeShareGroupOffsetsRequestGroup] = []
