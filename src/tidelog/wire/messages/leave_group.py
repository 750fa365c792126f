"""LeaveGroup (key 13), v0-v5. v1: throttle time. v3: several members, static ones too (KIP-345). v5: reason
(KIP-800)."""

from __future__ import annotations

from typing import Annotated

from tidelog.wire.schema import Message, Request, Response, ignorable, int16, int32, nullable, since, string


class MemberResponse(Message):
    member_id: string = ""
    group_instance_id: Annotated[string | None, nullable("3+")] = ""
    error_code: int16 = 0


class LeaveGroupResponse(Response):
    VERSIONS = "0-5"
    FLEXIBLE = "4+"
    API_KEY = 13

    throttle_time_ms: Annotated[int32, since("1+"), ignorable] = 0
    error_code: int16 = 0
    members: Annotated[list[MemberResponse], since("3+")] = []


class MemberIdentity(Message):
    member_id: string = ""
    group_instance_id: Annotated[string | None, nullable("3+")] = None
    reason: Annotated[string | None, since("5+"), nullable("5+"), ignorable] = None


class LeaveGroupRequest(Request):
    VERSIONS = "0-5"
    FLEXIBLE = "4+"
    API_KEY = 13
    RESPONSE = LeaveGroupResponse

    group_id: string = ""
    member_id: Annotated[string, since("0-2")] = ""
    members: Annotated[list[MemberIdentity], since("3+")] = []
