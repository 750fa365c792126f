"""CreatePartitions (key 37), v0-v3. Adds partitions to topics (KIP-195). v3: may be throttled (KIP-599)."""

from __future__ import annotations

from typing import Annotated

from tidelog.wire.schema import Message, Request, Response, bool_, int16, int32, nullable, string


class CreatePartitionsTopicResult(Message):
    name: string = ""
    error_code: int16 = 0
    error_message: Annotated[string | None, nullable("0+")] = None


class CreatePartitionsResponse(Response):
    VERSIONS = "0-3"
    FLEXIBLE = "2+"
    API_KEY = 37

    throttle_time_ms: int32 = 0
    results: list[CreatePartitionsTopicResult] = []


class CreatePartitionsAssignment(Message):
    broker_ids: list[int32] = []


class CreatePartitionsTopic(Message):
    name: string = ""
    count: int32 = 0
    assignments: Annotated[list[CreatePartitionsAssignment] | None, nullable("0+")] = []


class CreatePartitionsRequest(Request):
    VERSIONS = "0-3"
    FLEXIBLE = "2+"
    API_KEY = 37
    RESPONSE = CreatePartitionsResponse

    topics: list[CreatePartitionsTopic] = []
    timeout_ms: int32 = 0
    validate_only: bool_ = False
