"""DescribeDelegationToken (key 41), v1-v3, KIP-48. v3: who asked for the token (KIP-373)."""

from __future__ import annotations

from typing import Annotated

from tidelog.wire.schema import Message, Request, Response, bytes_, int16, int32, int64, nullable, since, string


class DescribedDelegationTokenRenewer(Message):
    principal_type: string = ""
    principal_name: string = ""


class DescribedDelegationToken(Message):
    principal_type: string = ""
    principal_name: string = ""
    token_requester_principal_type: Annotated[string, since("3+")] = ""
    token_requester_principal_name: Annotated[string, since("3+")] = ""
    issue_timestamp: int64 = 0
    expiry_timestamp: int64 = 0
    max_timestamp: int64 = 0
    token_id: string = ""
    hmac: bytes_ = b""
    renewers: list[DescribedDelegationTokenRenewer] = []


class DescribeDelegationTokenResponse(Response):
    VERSIONS = "1-3"
    FLEXIBLE = "2+"
    API_KEY = 41

    error_code: int16 = 0
    tokens: list[DescribedDelegationToken] = []
    throttle_time_ms: int32 = 0


class DescribeDelegationTokenOwner(Message):
    principal_type: string = ""
    principal_name: string = ""


class DescribeDelegationTokenRequest(Request):
    VERSIONS = "1-3"
    FLEXIBLE = "2+"
    API_KEY = 41
    RESPONSE = DescribeDelegationTokenResponse

    owners: Annotated[list[DescribeDelegationTokenOwner] | None, nullable("0+")] = []
