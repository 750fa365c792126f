"""DeleteAcls (key 31), v1-v3. v1: prefixed patterns (KIP-290). v3: user resources (KIP-373)."""

from __future__ import annotations

from typing import Annotated

from tidelog.wire.schema import Message, Request, Response, int8, int16, int32, nullable, string


class DeleteAclsMatchingAcl(Message):
    error_code: int16 = 0
    error_message: Annotated[string | None, nullable("0+")] = ""
    resource_type: int8 = 0
    resource_name: string = ""
    pattern_type: int8 = 3
    principal: string = ""
    host: string = ""
    operation: int8 = 0
    permission_type: int8 = 0


class DeleteAclsFilterResult(Message):
    error_code: int16 = 0
    error_message: Annotated[string | None, nullable("0+")] = ""
    matching_acls: list[DeleteAclsMatchingAcl] = []


class DeleteAclsResponse(Response):
    VERSIONS = "1-3"
    FLEXIBLE = "2+"
    API_KEY = 31

    throttle_time_ms: int32 = 0
    filter_results: list[DeleteAclsFilterResult] = []


class DeleteAclsFilter(Message):
    resource_type_filter: int8 = 0
    resource_name_filter: Annotated[string | None, nullable("0+")] = ""
    pattern_type_filter: int8 = 3
    principal_filter: Annotated[string | None, nullable("0+")] = ""
    host_filter: Annotated[string | None, nullable("0+")] = ""
    operation: int8 = 0
    permission_type: int8 = 0


class DeleteAclsRequest(Request):
    VERSIONS = "1-3"
    FLEXIBLE = "2+"
    API_KEY = 31
    RESPONSE = DeleteAclsResponse

    filters: list[DeleteAclsFilter] = []
