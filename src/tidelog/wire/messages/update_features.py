"""UpdateFeatures (key 57), v0-v2, KIP-584. v1: dry run and kind of downgrade (KIP-778). v2: one error for all
(KIP-1022)."""

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


class UpdatableFeatureResult(Message):
    feature: string = ""
    error_code: int16 = 0
    error_message: Annotated[string | None, nullable("0+")] = ""


class UpdateFeaturesResponse(Response):
    VERSIONS = "0-2"
    FLEXIBLE = "0+"
    API_KEY = 57

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: Annotated[string | None, nullable("0+")] = ""
    results: Annotated[list[UpdatableFeatureResult], since("0-1"), ignorable] = []


class FeatureUpdateKey(Message):
    feature: string = ""
    max_version_level: int16 = 0
    allow_downgrade: Annotated[bool_, since("0")] = False
    upgrade_type: Annotated[int8, since("1+")] = 1


class UpdateFeaturesRequest(Request):
    VERSIONS = "0-2"
    FLEXIBLE = "0+"
    API_KEY = 57
    RESPONSE = UpdateFeaturesResponse

    timeout_ms: int32 = 60000
    feature_updates: list[FeatureUpdateKey] = []
    validate_only: Annotated[bool_, since("1+")] = False
