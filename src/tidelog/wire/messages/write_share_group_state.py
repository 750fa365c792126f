"""WriteShareGroupState (key 85), v0-v1, KIP-932. v1: count of records whose delivery is complete (KIP-1226)."""

from __future__ import annotations

from typing import Annotated

from tidelog.model.ids import ZERO_UUID
from tidelog.wire.schema import (
    Message,
    Request,
    Response,
    ignorable,
    int8,
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


class WriteStateResult(Message):
    topic_id: uuid = ZERO_UUID
    partitions: list[PartitionResult] = []


class WriteShareGroupStateResponse(Response):
    VERSIONS = "0-1"
    FLEXIBLE = "0+"
    API_KEY = 85

    results: list[WriteStateResult] = []


class StateBatch(Message):
    first_offset: int64 = 0
    last_offset: int64 = 0
    delivery_state: int8 = 0
    delivery_count: int16 = 0


class PartitionData(Message):
    partition: int32 = 0
    state_epoch: int32 = 0
    leader_epoch: int32 = 0
    start_offset: int64 = 0
    delivery_complete_count: Annotated[int32, since("1+"), ignorable] = -1
    state_batches: list[StateBatch] = []


class WriteStateData(Message):
    topic_id: uuid = ZERO_UUID
    partitions: list[PartitionData] = []


class WriteShareGroupStateRequest(Request):
    VERSIONS = "0-1"
    FLEXIBLE = "0+"
    API_KEY = 85
    RESPONSE = WriteShareGroupStateResponse

    group_id: string = ""
    topics: list[WriteStateData] = []
