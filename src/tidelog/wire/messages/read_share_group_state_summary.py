"""ReadShareGroupStateSummary (key 87), v0-v1, KIP-932. v1: count of records whose delivery is complete (KIP-1226)."""

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


class PartitionResult(Message):
    partition: int32 = 0
    error_code: int16 = 0
    error_message: Annotated[string | None, nullable("0+")] = None
    state_epoch: int32 = 0
    leader_epoch: int32 = 0
    start_offset: int64 = 0
    delivery_complete_count: Annotated[int32, since("1+"), ignorable] = -1


class ReadStateSummaryResult(Message):
    topic_id: uuid = ZERO_UUID
    partitions: list[PartitionResult] = []


class ReadShareGroupStateSummaryResponse(Response):
    VERSIONS = "0-1"
    FLEXIBLE = "0+"
    API_KEY = 87

    results: list[ReadStateSummaryResult] = []


class PartitionData(Message):
    partition: int32 = 0
    leader_epoch: int32 = 0


class ReadStateSummaryData(Message):
    topic_id: uuid = ZERO_UUID
    partitions: list[PartitionData] = []


class ReadShareGroupStateSummaryRequest(Request):
    VERSIONS = "0-1"
    FLEXIBLE = "0+"
    API_KEY = 87
    RESPONSE = ReadShareGroupStateSummaryResponse

    group_id: string = ""
    topics: list[ReadStateSummaryData] = []
