"""DeleteShareGroupOffsets (key 92), v0, KIP-932."""

from __future__ import annotations

from typing import Annotated

from tidelog.model.ids import ZERO_UUID
from tidelog.wire.schema import Message, Request, Response, int16, int32, nullable, string, uuid


class DeleteShareGroupOffsetsResponseTopic(Message):
    topic_name: string = ""
    topic_id: uuid = ZERO_UUID
    error_code: int16 = 0
    error_message: Annotated[string | None, nullable("0+")] = None


class DeleteShareGroupOffsetsResponse(Response):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 92

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: Annotated[string | None, nullable("0+")] = None
    responses: list[DeleteShareGroupOffsetsResponseTopic] = []


class DeleteShareGroupOffsetsRequestTopic(Message):
    topic_name: string = ""


class DeleteShareGroupOffsetsRequest(Request):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 92
    RESPONSE = DeleteShareGroupOffsetsResponse

    group_id: string = ""
    topics: list[DeleteShareGroupOffsetsRequestTopic] = []
