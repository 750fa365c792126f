"""SaslHandshake (key 17), v0-v1. v1: tokens travel in SaslAuthenticate (KIP-152)."""

from __future__ import annotations

from tidelog.wire.schema import Request, Response, int16, string


class SaslHandshakeResponse(Response):
    VERSIONS = "0-1"
    FLEXIBLE = "none"
    API_KEY = 17

    error_code: int16 = 0
    mechanisms: list[string] = []


class SaslHandshakeRequest(Request):
    VERSIONS = "0-1"
    FLEXIBLE = "none"
    API_KEY = 17
    RESPONSE = SaslHandshakeResponse

    mechanism: string = ""
