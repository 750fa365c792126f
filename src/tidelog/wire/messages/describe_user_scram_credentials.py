"""DescribeUserScramCredentials (key 50), v0, KIP-554."""

from __future__ import annotations

from typing import Annotated

from tidelog.wire.schema import Message, Request, Response, int8, int16, int32, nullable, string


class CredentialInfo(Message):
    mechanism: int8 = 0
    iterations: int32 = 0


class DescribeUserScramCredentialsResult(Message):
    user: string = ""
    error_code: int16 = 0
    error_message: Annotated[string | None, nullable("0+")] = ""
    credential_infos: list[CredentialInfo] = []


class DescribeUserScramCredentialsResponse(Response):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 50

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: Annotated[string | None, nullable("0+")] = ""
    results: list[DescribeUserScramCredentialsResult] = []


class UserName(Message):
    name: string = ""


class DescribeUserScramCredentialsRequest(Request):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 50
    RESPONSE = DescribeUserScramCredentialsResponse

    users: Annotated[list[UserName] | None, nullable("0+")] = []
