"""DeleteShareGroupState (key 86), v0, KIP-932."""

from __future__ import annotations

from typing import Annotated

from tidelog.model.ids import ZERO_UUID
from tidelog.wire.schema import Message, Request, Response, int16, int32, nullable, string, uuid


class PartitionResult(Message):
    partition: int32 = 0
    error_code: int16 = 0
    error_message: Annotated[string | None, nullable("0+")] = None


class DeleteStateResult(Message):
    topic_id: uuid = ZERO_UUID
    partitions: list[PartitionResult] = []


class DeleteShareGroupStateResponse(Response):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 86

    results: list[DeleteStateResult] = []


class PartitionData(Message):
    partition: int32 = 0


class DeleteStateData(Message):
    topic_id: uuid = ZERO_UUID
    partitions: list[PartitionData] = []


class DeleteShareGroupStateRequest(Request):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 86
    RESPONSE = DeleteShareGroupStateResponse

    group_id: string = ""
    topics: list[DeleteStateData] = []
