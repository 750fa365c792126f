"""Envelope (key 58), v0. A broker forwards a client's request to the controller with the client's principal
(KIP-590)."""

from __future__ import annotations

from typing import Annotated

from tidelog.wire.schema import Request, Response, bytes_, int16, nullable


class EnvelopeResponse(Response):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 58

    response_data: Annotated[bytes_ | None, nullable("0+")] = None
    error_code: int16 = 0


class EnvelopeRequest(Request):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 58
    RESPONSE = EnvelopeResponse

    request_data: bytes_ = b""
    request_principal: Annotated[bytes_ | None, nullable("0+")] = b""
    client_host_address: bytes_ = b""
