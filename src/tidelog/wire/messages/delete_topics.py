"""DeleteTopics (key 20), v1-v6. v5: error message (KIP-599). v6: by topic id (KIP-516)."""

from __future__ import annotations

from typing import Annotated

from tidelog.model.ids import ZERO_UUID
from tidelog.wire.schema import Message, Request, Response, ignorable, int16, int32, nullable, since, string, uuid


class DeletableTopicResult(Message):
    name: Annotated[string | None, nullable("6+")] = ""
    topic_id: Annotated[uuid, since("6+"), ignorable] = ZERO_UUID
    error_code: int16 = 0
    error_message: Annotated[string | None, since("5+"), nullable("5+"), ignorable] = None


class DeleteTopicsResponse(Response):
    VERSIONS = "1-6"
    FLEXIBLE = "4+"
    API_KEY = 20

    throttle_time_ms: int32 = 0
    responses: list[DeletableTopicResult] = []


class DeleteTopicState(Message):
    name: Annotated[string | None, nullable("6+")] = None
    topic_id: uuid = ZERO_UUID


class DeleteTopicsRequest(Request):
    VERSIONS = "1-6"
    FLEXIBLE = "4+"
    API_KEY = 20
    RESPONSE = DeleteTopicsResponse

    topics: Annotated[list[DeleteTopicState], since("6+")] = []
    topic_names: Annotated[list[string], since("0-5"), ignorable] = []
    timeout_ms: int32 = 0
