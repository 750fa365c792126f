"""IncrementalAlterConfigs (key 44), v0-v1. Sets, deletes, appends to and subtracts from single keys (KIP-339)."""

from __future__ import annotations

from typing import Annotated

from tidelog.wire.schema import Message, Request, Response, bool_, int8, int16, int32, nullable, string


class AlterConfigsResourceResponse(Message):
    error_code: int16 = 0
    error_message: Annotated[string | None, nullable("0+")] = ""
    resource_type: int8 = 0
    resource_name: string = ""


class IncrementalAlterConfigsResponse(Response):
    VERSIONS = "0-1"
    FLEXIBLE = "1+"
    API_KEY = 44

    throttle_time_ms: int32 = 0
    responses: list[AlterConfigsResourceResponse] = []


class AlterableConfig(Message):
    name: string = ""
    config_operation: int8 = 0
    value: Annotated[string | None, nullable("0+")] = ""


class AlterConfigsResource(Message):
    resource_type: int8 = 0
    resource_name: string = ""
    configs: list[AlterableConfig] = []


class IncrementalAlterConfigsRequest(Request):
    VERSIONS = "0-1"
    FLEXIBLE = "1+"
    API_KEY = 44
    RESPONSE = IncrementalAlterConfigsResponse

    resources: list[AlterConfigsResource] = []
    validate_only: bool_ = False
