"""ListConfigResources (key 74), v0-v1. v0: client metrics resources only (KIP-714). v1: any kind of resource
(KIP-1142)."""

from __future__ import annotations

from typing import Annotated

from tidelog.wire.schema import Message, Request, Response, ignorable, int8, int16, int32, since, string


class ConfigResource(Message):
    resource_name: string = ""
    resource_type: Annotated[int8, since("1+"), ignorable] = 16


class ListConfigResourcesResponse(Response):
    VERSIONS = "0-1"
    FLEXIBLE = "0+"
    API_KEY = 74

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    config_resources: list[ConfigResource] = []


class ListConfigResourcesRequest(Request):
    VERSIONS = "0-1"
    FLEXIBLE = "0+"
    API_KEY = 74
    RESPONSE = ListConfigResourcesResponse

    resource_types: Annotated[list[int8], since("1+")] = []
