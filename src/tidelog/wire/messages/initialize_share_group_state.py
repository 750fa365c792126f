"""InitializeShareGroupState (key 83), v0, KIP-932."""

from __future__ import annotations

from typing import Annotated

from tidelog.model.ids import ZERO_UUID
from tidelog.wire.schema import Message, Request, Response, int16, int32, int64, nullable, string, uuid


class PartitionResult(Message):
    partition: int32 = 0
    error_code: int16 = 0
    error_message: Annotated[string | None, nullable("0+")] = None


class InitializeStateResult(Message):
    topic_id: uuid = ZERO_UUID
    partitions: list[PartitionResult] = []


class InitializeShareGroupStateResponse(Response):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 83

    results: list[InitializeStateResult] = []


class PartitionData(Message):
    partition: int32 = 0
    state_epoch: int32 = 0
    start_offset: int64 = 0


class InitializeStateData(Message):
    topic_id: uuid = ZERO_UUID
    partitions: list[PartitionData] = []


class InitializeShareGroupStateRequest(Request):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 83
    RESPONSE = InitializeShareGroupStateResponse

    group_id: string = ""
    topics: list[InitializeStateData] = []
