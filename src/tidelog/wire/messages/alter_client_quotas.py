"""AlterClientQuotas (key 49), v0-v1, KIP-546."""

from __future__ import annotations

from typing import Annotated

from tidelog.wire.schema import Message, Request, Response, bool_, float64, int16, int32, nullable, string


class EntityData(Message):
    entity_type: string = ""
    entity_name: Annotated[string | None, nullable("0+")] = ""


class AlterClientQuotasResponseEntryData(Message):
    error_code: int16 = 0
    error_message: Annotated[string | None, nullable("0+")] = ""
    entity: list[EntityData] = []


class AlterClientQuotasResponse(Response):
    VERSIONS = "0-1"
    FLEXIBLE = "1+"
    API_KEY = 49

    throttle_time_ms: int32 = 0
    entries: list[AlterClientQuotasResponseEntryData] = []


class OpData(Message):
    key: string = ""
    value: float64 = 0.0
    remove: bool_ = False


class AlterClientQuotasRequestEntryData(Message):
    entity: list[EntityData] = []
    ops: list[OpData] = []


class AlterClientQuotasRequest(Request):
    VERSIONS = "0-1"
    FLEXIBLE = "1+"
    API_KEY = 49
    RESPONSE = AlterClientQuotasResponse

    entries: list[AlterClientQuotasRequestEntryData] = []
    validate_only: bool_ = False
