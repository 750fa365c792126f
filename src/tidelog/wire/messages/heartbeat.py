"""Heartbeat (key 12), v0-v4. v1: throttle time. v3: static members (KIP-345)."""

from __future__ import annotations

from typing import Annotated

from tidelog.wire.schema import Request, Response, ignorable, int16, int32, nullable, since, string


class HeartbeatResponse(Response):
    VERSIONS = "0-4"
    FLEXIBLE = "4+"
    API_KEY = 12

    throttle_time_ms: Annotated[int32, since("1+"), ignorable] = 0
    error_code: int16 = 0


class HeartbeatRequest(Request):
    VERSIONS = "0-4"
    FLEXIBLE = "4+"
    API_KEY = 12
    RESPONSE = HeartbeatResponse

    group_id: string = ""
    generation_id: int32 = 0
    member_id: string = ""
    group_instance_id: Annotated[string | None, since("3+"), nullable("3+")] = None
