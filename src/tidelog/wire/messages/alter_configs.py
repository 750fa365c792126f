"""AlterConfigs (key 33), v0-v2. Replaces the whole configuration of a resource (KIP-133); IncrementalAlterConfigs
changes single keys."""

from __future__ import annotations

from typing import Annotated

from tidelog.wire.schema import Message, Request, Response, bool_, int8, int16, int32, nullable, string


class AlterConfigsResourceResponse(Message):
    error_code: int16 = 0
    error_message: Annotated[string | None, nullable("0+")] = ""
    resource_type: int8 = 0
    resource_name: string = ""


class AlterConfigsResponse(Response):
    VERSIONS = "0-2"
    FLEXIBLE = "2+"
    API_KEY = 33

    throttle_time_ms: int32 = 0
    responses: list[AlterConfigsResourceResponse] = []


class AlterableConfig(Message):
    name: string = ""
    value: Annotated[string | None, nullable("0+")] = ""


class AlterConfigsResource(Message):
    resource_type: int8 = 0
    resource_name: string = ""
    configs: list[AlterableConfig] = []


class AlterConfigsRequest(Request):
    VERSIONS = "0-2"
    FLEXIBLE = "2+"
    API_KEY = 33
    RESPONSE = AlterConfigsResponse

    resources: list[AlterConfigsResource] = []
    validate_only: bool_ = False
