"""DescribeConfigs (key 32), v1-v4. v1: synonyms and the source of a value (KIP-226). v3: type and documentation
(KIP-569)."""

from __future__ import annotations

from typing import Annotated

from tidelog.wire.schema import (
    Message,
    Request,
    Response,
    bool_,
    ignorable,
    int8,
    int16,
    int32,
    nullable,
    since,
    string,
)


class DescribeConfigsSynonym(Message):
    name: string = ""
    value: Annotated[string | None, nullable("0+")] = ""
    source: int8 = 0


class DescribeConfigsResourceResult(Message):
    name: string = ""
    value: Annotated[string | None, nullable("0+")] = ""
    read_only: bool_ = False
    config_source: int8 = -1
    is_sensitive: bool_ = False
    synonyms: list[DescribeConfigsSynonym] = []
    config_type: Annotated[int8, since("3+"), ignorable] = 0
    documentation: Annotated[string | None, since("3+"), nullable("3+"), ignorable] = ""


class DescribeConfigsResult(Message):
    error_code: int16 = 0
    error_message: Annotated[string | None, nullable("0+")] = ""
    resource_type: int8 = 0
    resource_name: string = ""
    configs: list[DescribeConfigsResourceResult] = []


class DescribeConfigsResponse(Response):
    VERSIONS = "1-4"
    FLEXIBLE = "4+"
    API_KEY = 32

    throttle_time_ms: int32 = 0
    results: list[DescribeConfigsResult] = []


class DescribeConfigsResource(Message):
    resource_type: int8 = 0
    resource_name: string = ""
    configuration_keys: Annotated[list[string] | None, nullable("0+")] = []


class DescribeConfigsRequest(Request):
    VERSIONS = "1-4"
    FLEXIBLE = "4+"
    API_KEY = 32
    RESPONSE = DescribeConfigsResponse

    resources: list[DescribeConfigsResource] = []
    include_synonyms: bool_ = False
    include_documentation: Annotated[bool_, since("3+")] = False
