"""DescribeGroups (key 15), v0-v6. v3: authorized operations (KIP-430). v4: static members (KIP-345). v6: an unknown
group is an error with a message (KIP-1043)."""

from __future__ import annotations

from typing import Annotated

from tidelog.wire.schema import (
    Message,
    Request,
    Response,
    bool_,
    bytes_,
    ignorable,
    int16,
    int32,
    nullable,
    since,
    string,
)


class DescribedGroupMember(Message):
    member_id: string = ""
    group_instance_id: Annotated[string | None, since("4+"), nullable("4+"), ignorable] = None
    client_id: string = ""
    client_host: string = ""
    member_metadata: bytes_ = b""
    member_assignment: bytes_ = b""


class DescribedGroup(Message):
    error_code: int16 = 0
    error_message: Annotated[string | None, since("6+"), nullable("6+")] = None
    group_id: string = ""
    group_state: string = ""
    protocol_type: string = ""
    protocol_data: string = ""
    members: list[DescribedGroupMember] = []
    authorized_operations: Annotated[int32, since("3+")] = -2147483648


class DescribeGroupsResponse(Response):
    VERSIONS = "0-6"
    FLEXIBLE = "5+"
    API_KEY = 15

    throttle_time_ms: Annotated[int32, since("1+"), ignorable] = 0
    groups: list[DescribedGroup] = []


class DescribeGroupsRequest(Request):
    VERSIONS = "0-6"
    FLEXIBLE = "5+"
    API_KEY = 15
    RESPONSE = DescribeGroupsResponse

    groups: list[string] = []
    include_authorized_operations: Annotated[bool_, since("3+")] = False
