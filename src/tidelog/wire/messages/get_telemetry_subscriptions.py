"""GetTelemetrySubscriptions (key 71), v0, KIP-714."""

from __future__ import annotations

from tidelog.model.ids import ZERO_UUID
from tidelog.wire.schema import Request, Response, bool_, int8, int16, int32, string, uuid


class GetTelemetrySubscriptionsResponse(Response):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 71

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    client_instance_id: uuid = ZERO_UUID
    subscription_id: int32 = 0
    accepted_compression_types: list[int8] = []
    push_interval_ms: int32 = 0
    telemetry_max_bytes: int32 = 0
    delta_temporality: bool_ = False
    requested_metrics: list[string] = []


class GetTelemetrySubscriptionsRequest(Request):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 71
    RESPONSE = GetTelemetrySubscriptionsResponse

    client_instance_id: uuid = ZERO_UUID
