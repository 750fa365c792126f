"""SyncGroup (key 14), v0-v5. v1: throttle time. v3: static members (KIP-345). v5: protocol type and name (KIP-559)."""

from __future__ import annotations

from typing import Annotated

from tidelog.wire.schema import Message, Request, Response, bytes_, ignorable, int16, int32, nullable, since, string


class SyncGroupResponse(Response):
    VERSIONS = "0-5"
    FLEXIBLE = "4+"
    API_KEY = 14

    throttle_time_ms: Annotated[int32, since("1+"), ignorable] = 0
    error_code: int16 = 0
    protocol_type: Annotated[string | None, since("5+"), nullable("5+"), ignorable] = None
    protocol_name: Annotated[string | None, since("5+"), nullable("5+"), ignorable] = None
    assignment: bytes_ = b""


class SyncGroupRequestAssignment(Message):
    member_id: string = ""
    assignment: bytes_ = b""


class SyncGroupRequest(Request):
    VERSIONS = "0-5"
    FLEXIBLE = "4+"
    API_KEY = 14
    RESPONSE = SyncGroupResponse

    group_id: string = ""
    generation_id: int32 = 0
    member_id: string = ""
    group_instance_id: Annotated[string | None, since("3+"), nullable("3+")] = None
    protocol_type: Annotated[string | None, since("5+"), nullable("5+"), ignorable] = None
    protocol_name: Annotated[string | None, since("5+"), nullable("5+"), ignorable] = None
    assignments: list[SyncGroupRequestAssignment] = []
