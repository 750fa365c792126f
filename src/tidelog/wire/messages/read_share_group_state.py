"""ReadShareGroupState (key 84), v0, KIP-932."""

from __future__ import annotations

from typing import Annotated

from tidelog.model.ids import ZERO_UUID
from tidelog.wire.schema import Message, Request, Response, int8, int16, int32, int64, nullable, string, uuid


class StateBatch(Message):
    first_offset: int64 = 0
    last_offset: int64 = 0
    delivery_state: int8 = 0
    delivery_count: int16 = 0


class PartitionResult(Message):
    partition: int32 = 0
    error_code: int16 = 0
    error_message: Annotated[string | None, nullable("0+")] = None
    state_epoch: int32 = 0
    start_offset: int64 = 0
    state_batches: list[StateBatch] = []


class ReadStateResult(Message):
    topic_id: uuid = ZERO_UUID
    partitions: list[PartitionResult] = []


class ReadShareGroupStateResponse(Response):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 84

    results: list[ReadStateResult] = []


class PartitionData(Message):
    partition: int32 = 0
    leader_epoch: int32 = 0


class ReadStateData(Message):
    topic_id: uuid = ZERO_UUID
    partitions: list[PartitionData] = []


class ReadShareGroupStateRequest(Request):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 84
    RESPONSE = ReadShareGroupStateResponse

    group_id: string = ""
    topics: list[ReadStateData] = []
