"""DescribeAcls (key 29), v1-v3. v1: prefixed patterns (KIP-290). v3: user resources (KIP-373)."""

from __future__ import annotations

from typing import Annotated

from tidelog.wire.schema import Message, Request, Response, int8, int16, int32, nullable, string


class AclDescription(Message):
    principal: string = ""
    host: string = ""
    operation: int8 = 0
    permission_type: int8 = 0


class DescribeAclsResource(Message):
    resource_type: int8 = 0
    resource_name: string = ""
    pattern_type: int8 = 3
    acls: list[AclDescription] = []


class DescribeAclsResponse(Response):
    VERSIONS = "1-3"
    FLEXIBLE = "2+"
    API_KEY = 29

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: Annotated[string | None, nullable("0+")] = ""
    resources: list[DescribeAclsResource] = []


class DescribeAclsRequest(Request):
    VERSIONS = "1-3"
    FLEXIBLE = "2+"
    API_KEY = 29
    RESPONSE = DescribeAclsResponse

    resource_type_filter: int8 = 0
    resource_name_filter: Annotated[string | None, nullable("0+")] = ""
    pattern_type_filter: int8 = 3
    principal_filter: Annotated[string | None, nullable("0+")] = ""
    host_filter: Annotated[string | None, nullable("0+")] = ""
    operation: int8 = 0
    permission_type: int8 = 0
