"""The headers before every request and response. A response to ApiVersions always has header v0, so that a client can
read it before it knows what the broker speaks (KIP-511); the client id stays a plain string in every version
(KIP-482)."""

from __future__ import annotations

from typing import Annotated

from tidelog.wire.schema import Message, inflexible, int16, int32, nullable, string


class RequestHeader(Message):
    VERSIONS = "1-2"
    FLEXIBLE = "2+"

    request_api_key: int16 = 0
    request_api_version: int16 = 0
    correlation_id: int32 = 0
    client_id: Annotated[string | None, nullable("1+"), inflexible] = ""


class ResponseHeader(Message):
    VERSIONS = "0-1"
    FLEXIBLE = "1+"

    correlation_id: int32 = 0
