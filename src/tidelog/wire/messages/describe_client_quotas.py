"""DescribeClientQuotas (key 48), v0-v1, KIP-546."""

from __future__ import annotations

from typing import Annotated

from tidelog.wire.schema import Message, Request, Response, bool_, float64, int8, int16, int32, nullable, string


class EntityData(Message):
    entity_type: string = ""
    entity_name: Annotated[string | None, nullable("0+")] = ""


class ValueData(Message):
    key: string = ""
    value: float64 = 0.0


class EntryData(Message):
    entity: list[EntityData] = []
    values: list[ValueData] = []


class DescribeClientQuotasResponse(Response):
    VERSIONS = "0-1"
    FLEXIBLE = "1+"
    API_KEY = 48

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: Annotated[string | None, nullable("0+")] = ""
    entries: Annotated[list[EntryData] | None, nullable("0+")] = []


class ComponentData(Message):
    entity_type: string = ""
    match_type: int8 = 0
    match: Annotated[string | None, nullable("0+")] = ""


class DescribeClientQuotasRequest(Request):
    VERSIONS = "0-1"
    FLEXIBLE = "1+"
    API_KEY = 48
    RESPONSE = DescribeClientQuotasResponse

    components: list[ComponentData] = []
    strict: bool_ = False
