"""UnregisterBroker (key 64), v0, KIP-631."""

from __future__ import annotations

from typing import Annotated

from tidelog.wire.schema import Request, Response, int16, int32, nullable, string


class UnregisterBrokerResponse(Response):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 64

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: Annotated[string | None, nullable("0+")] = ""


class UnregisterBrokerRequest(Request):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 64
    RESPONSE = UnregisterBrokerResponse

    broker_id: int32 = 0
