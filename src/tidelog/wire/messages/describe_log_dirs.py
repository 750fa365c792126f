"""DescribeLogDirs (key 35), v1-v4. Sizes of replicas by directory (KIP-113). v3: error for the whole answer. v4: total
and usable bytes of the volume (KIP-827)."""

from __future__ import annotations

from typing import Annotated

from tidelog.wire.schema import (
    Message,
    Request,
    Response,
    bool_,
    ignorable,
    int16,
    int32,
    int64,
    nullable,
    since,
    string,
)


class DescribeLogDirsPartition(Message):
    partition_index: int32 = 0
    partition_size: int64 = 0
    offset_lag: int64 = 0
    is_future_key: bool_ = False


class DescribeLogDirsTopic(Message):
    name: string = ""
    partitions: list[DescribeLogDirsPartition] = []


class DescribeLogDirsResult(Message):
    error_code: int16 = 0
    log_dir: string = ""
    topics: list[DescribeLogDirsTopic] = []
    total_bytes: Annotated[int64, since("4+"), ignorable] = -1
    usable_bytes: Annotated[int64, since("4+"), ignorable] = -1


class DescribeLogDirsResponse(Response):
    VERSIONS = "1-4"
    FLEXIBLE = "2+"
    API_KEY = 35

    throttle_time_ms: int32 = 0
    error_code: Annotated[int16, since("3+"), ignorable] = 0
    results: list[DescribeLogDirsResult] = []


class DescribableLogDirTopic(Message):
    topic: string = ""
    partitions: list[int32] = []


class DescribeLogDirsRequest(Request):
    VERSIONS = "1-4"
    FLEXIBLE = "2+"
    API_KEY = 35
    RESPONSE = DescribeLogDirsResponse

    topics: Annotated[list[DescribableLogDirTopic] | None, nullable("0+")] = []
