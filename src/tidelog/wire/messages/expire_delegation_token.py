"""ExpireDelegationToken (key 40), v1-v2, KIP-48."""

from __future__ import annotations

from tidelog.wire.schema import Request, Response, bytes_, int16, int32, int64


class ExpireDelegationTokenResponse(Response):
    VERSIONS = "1-2"
    FLEXIBLE = "2+"
    API_KEY = 40

    error_code: int16 = 0
    expiry_timestamp_ms: int64 = 0
    throttle_time_ms: int32 = 0


class ExpireDelegationTokenRequest(Request):
    VERSIONS = "1-2"
    FLEXIBLE = "2+"
    API_KEY = 40
    RESPONSE = ExpireDelegationTokenResponse

    hmac: bytes_ = b""
    expiry_time_period_ms: int64 = 0
