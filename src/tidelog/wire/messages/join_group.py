"""JoinGroup (key 11), v0-v9. v1: rebalance timeout (KIP-62). v4: the member id is required (KIP-394). v5: static
members (KIP-345). v7: protocol type in the answer (KIP-559). v8: reason (KIP-800). v9: leaders may skip the assignment
(KIP-814)."""

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


class JoinGroupResponseMember(Message):
    member_id: string = ""
    group_instance_id: Annotated[string | None, since("5+"), nullable("5+"), ignorable] = None
    metadata: bytes_ = b""


class JoinGroupResponse(Response):
    VERSIONS = "0-9"
    FLEXIBLE = "6+"
    API_KEY = 11

    throttle_time_ms: Annotated[int32, since("2+"), ignorable] = 0
    error_code: int16 = 0
    generation_id: int32 = -1
    protocol_type: Annotated[string | None, since("7+"), nullable("7+"), ignorable] = None
    protocol_name: Annotated[string | None, nullable("7+")] = ""
    leader: string = ""
    skip_assignment: Annotated[bool_, since("9+")] = False
    member_id: string = ""
    members: list[JoinGroupResponseMember] = []


class JoinGroupRequestProtocol(Message):
    name: string = ""
    metadata: bytes_ = b""


class JoinGroupRequest(Request):
    VERSIONS = "0-9"
    FLEXIBLE = "6+"
    API_KEY = 11
    RESPONSE = JoinGroupResponse

    group_id: string = ""
    session_timeout_ms: int32 = 0
    rebalance_timeout_ms: Annotated[int32, since("1+"), ignorable] = -1
    member_id: string = ""
    group_instance_id: Annotated[string | None, since("5+"), nullable("5+")] = None
    protocol_type: string = ""
    protocols: list[JoinGroupRequestProtocol] = []
    reason: Annotated[string | None, since("8+"), nullable("8+"), ignorable] = None
