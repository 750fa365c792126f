"""ListGroups (key 16), v0-v5. v4: filter by state (KIP-518). v5: filter by type (KIP-848)."""

from __future__ import annotations

from typing import Annotated

from tidelog.wire.schema import Message, Request, Response, ignorable, int16, int32, since, string


class ListedGroup(Message):
    group_id: string = ""
    protocol_type: string = ""
    group_state: Annotated[string, since("4+"), ignorable] = ""
    group_type: Annotated[string, since("5+"), ignorable] = ""


class ListGroupsResponse(Response):
    VERSIONS = "0-5"
    FLEXIBLE = "3+"
    API_KEY = 16

    throttle_time_ms: Annotated[int32, since("1+"), ignorable] = 0
    error_code: int16 = 0
    groups: list[ListedGroup] = []


class ListGroupsRequest(Request):
    VERSIONS = "0-5"
    FLEXIBLE = "3+"
    API_KEY = 16
    RESPONSE = ListGroupsResponse

    states_filter: Annotated[list[string], since("4+")] = []
    types_filter: Annotated[list[string], since("5+")] = []
