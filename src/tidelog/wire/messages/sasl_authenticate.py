"""SaslAuthenticate (key 36), v0-v2. v1: session lifetime (KIP-368)."""

from __future__ import annotations

from typing import Annotated

from tidelog.wire.schema import Request, Response, bytes_, ignorable, int16, int64, nullable, since, string


class SaslAuthenticateResponse(Response):
    VERSIONS = "0-2"
    FLEXIBLE = "2+"
    API_KEY = 36

    error_code: int16 = 0
    error_message: Annotated[string | None, nullable("0+")] = ""
    auth_bytes: bytes_ = b""
    session_lifetime_ms: Annotated[int64, since("1+"), ignorable] = 0


class SaslAuthenticateRequest(Request):
    VERSIONS = "0-2"
    FLEXIBLE = "2+"
    API_KEY = 36
    RESPONSE = SaslAuthenticateResponse

    auth_bytes: bytes_ = b""
