"""CreateDelegationToken (key 38), v1-v3, KIP-48. v3: a token for another user (KIP-373)."""

from __future__ import annotations

from typing import Annotated

from tidelog.wire.schema import Message, Request, Response, bytes_, int16, int32, int64, nullable, since, string


class CreateDelegationTokenResponse(Response):
    VERSIONS = "1-3"
    FLEXIBLE = "2+"
    API_KEY = 38

    error_code: int16 = 0
    principal_type: string = ""
    principal_name: string = ""
    token_requester_principal_type: Annotated[string, since("3+")] = ""
    token_requester_principal_name: Annotated[string, since("3+")] = ""
    issue_timestamp_ms: int64 = 0
    expiry_timestamp_ms: int64 = 0
    max_timestamp_ms: int64 = 0
    token_id: string = ""
    hmac: bytes_ = b""
    throttle_time_ms: int32 = 0


class CreatableRenewers(Message):
    principal_type: string = ""
    principal_name: string = ""


class CreateDelegationTokenRequest(Request):
    VERSIONS = "1-3"
    FLEXIBLE = "2+"
    API_KEY = 38
    RESPONSE = CreateDelegationTokenResponse

    owner_principal_type: Annotated[string | None, since("3+"), nullable("3+")] = ""
    owner_principal_name: Annotated[string | None, since("3+"), nullable("3+")] = ""
    renewers: list[CreatableRenewers] = []
    max_lifetime_ms: int64 = 0
