"""DeleteGroups (key 42), v0-v2, KIP-229."""

from __future__ import annotations

from tidelog.wire.schema import Message, Request, Response, int16, int32, string


class DeletableGroupResult(Message):
    group_id: string = ""
    error_code: int16 = 0


class DeleteGroupsResponse(Response):
    VERSIONS = "0-2"
    FLEXIBLE = "2+"
    API_KEY = 42

    throttle_time_ms: int32 = 0
    results: list[DeletableGroupResult] = []


class DeleteGroupsRequest(Request):
    VERSIONS = "0-2"
    FLEXIBLE = "2+"
    API_KEY = 42
    RESPONSE = DeleteGroupsResponse

    groups_names: list[string] = []
