"""PushTelemetry (key 72), v0, KIP-714."""

from __future__ import annotations

from tidelog.model.ids import ZERO_UUID
from tidelog.wire.schema import Request, Response, bool_, bytes_, int8, int16, int32, uuid


class PushTelemetryResponse(Response):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 72

    throttle_time_ms: int32 = 0
    error_code: int16 = 0


class PushTelemetryRequest(Request):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 72
    RESPONSE = PushTelemetryResponse

    client_instance_id: uuid = ZERO_UUID
    subscription_id: int32 = 0
    terminating: bool_ = False
    compression_type: int8 = 0
    metrics: bytes_ = b""
