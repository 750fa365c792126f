"""ApiVersions (key 18), v0-v4. v2: throttled answers are sent at once (KIP-219). v3: client software (KIP-511),
features (KIP-584). v4: features whose minimum is 0."""

from __future__ import annotations

from typing import Annotated

from tidelog.wire.schema import Message, Request, Response, bool_, ignorable, int16, int32, int64, since, string, tag


class ApiVersion(Message):
    api_key: int16 = 0
    min_version: int16 = 0
    max_version: int16 = 0


class SupportedFeatureKey(Message):
    name: string = ""
    min_version: int16 = 0
    max_version: int16 = 0


class FinalizedFeatureKey(Message):
    name: string = ""
    max_version_level: int16 = 0
    min_version_level: int16 = 0


class ApiVersionsResponse(Response):
    VERSIONS = "0-4"
    FLEXIBLE = "3+"
    API_KEY = 18

    error_code: int16 = 0
    api_keys: list[ApiVersion] = []
    throttle_time_ms: Annotated[int32, since("1+"), ignorable] = 0
    supported_features: Annotated[list[SupportedFeatureKey], tag(0, "3+"), ignorable] = []
    finalized_features_epoch: Annotated[int64, tag(1, "3+"), ignorable] = -1
    finalized_features: Annotated[list[FinalizedFeatureKey], tag(2, "3+"), ignorable] = []
    zk_migration_ready: Annotated[bool_, tag(3, "3+"), ignorable] = False


class ApiVersionsRequest(Request):
    VERSIONS = "0-4"
    FLEXIBLE = "3+"
    API_KEY = 18
    RESPONSE = ApiVersionsResponse

    client_software_name: Annotated[string, since("3+"), ignorable] = ""
    client_software_version: Annotated[string, since("3+"), ignorable] = ""
