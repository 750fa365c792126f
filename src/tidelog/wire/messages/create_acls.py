"""CreateAcls (key 30), v1-v3. v1: prefixed patterns (KIP-290). v3: user resources (KIP-373)."""

from __future__ import annotations

from typing import Annotated

from tidelog.wire.schema import Message, Request, Response, int8, int16, int32, nullable, string


class AclCreationResult(Message):
    error_code: int16 = 0
    error_message: Annotated[string | None, nullable("0+")] = ""


class CreateAclsResponse(Response):
    VERSIONS = "1-3"
    FLEXIBLE = "2+"
    API_KEY = 30

    throttle_time_ms: int32 = 0
    results: list[AclCreationResult] = []


class AclCreation(Message):
    resource_type: int8 = 0
    resource_name: string = ""
    resource_pattern_type: int8 = 3
    principal: string = ""
    host: string = ""
    operation: int8 = 0
    permission_type: int8 = 0


class CreateAclsRequest(Request):
    VERSIONS = "1-3"
    FLEXIBLE = "2+"
    API_KEY = 30
    RESPONSE = CreateAclsResponse

    creations: list[AclCreation] = []
