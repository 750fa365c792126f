"""AlterUserScramCredentials (key 51), v0, KIP-554."""

from __future__ import annotations

from typing import Annotated

from tidelog.wire.schema import Message, Request, Response, bytes_, int8, int16, int32, nullable, string


class AlterUserScramCredentialsResult(Message):
    user: string = ""
    error_code: int16 = 0
    error_message: Annotated[string | None, nullable("0+")] = ""


class AlterUserScramCredentialsResponse(Response):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 51

    throttle_time_ms: int32 = 0
    results: list[AlterUserScramCredentialsResult] = []


class ScramCredentialDeletion(Message):
    name: string = ""
    mechanism: int8 = 0


class ScramCredentialUpsertion(Message):
    name: string = ""
    mechanism: int8 = 0
    iterations: int32 = 0
    salt: bytes_ = b""
    salted_password: bytes_ = b""


class AlterUserScramCredentialsRequest(Request):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 51
    RESPONSE = AlterUserScramCredentialsResponse

    deletions: list[ScramCredentialDeletion] = []
    upsertions: list[ScramCredentialUpsertion] = []
