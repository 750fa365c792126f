"""FindCoordinator (key 10), v0-v6. v1: transactions too (KIP-98). v4: several keys at once (KIP-699). v5: the error
TRANSACTION_ABORTABLE (KIP-890). v6: share groups (KIP-932)."""

from __future__ import annotations

from typing import Annotated

from tidelog.wire.schema import Message, Request, Response, ignorable, int8, int16, int32, nullable, since, string


class Coordinator(Message):
    key: string = ""
    node_id: int32 = 0
    host: string = ""
    port: int32 = 0
    error_code: int16 = 0
    error_message: Annotated[string | None, nullable("4+")] = ""


class FindCoordinatorResponse(Response):
    VERSIONS = "0-6"
    FLEXIBLE = "3+"
    API_KEY = 10

    throttle_time_ms: Annotated[int32, since("1+"), ignorable] = 0
    error_code: Annotated[int16, since("0-3")] = 0
    error_message: Annotated[string | None, since("1-3"), nullable("1-3"), ignorable] = ""
    node_id: Annotated[int32, since("0-3")] = 0
    host: Annotated[string, since("0-3")] = ""
    port: Annotated[int32, since("0-3")] = 0
    coordinators: Annotated[list[Coordinator], since("4+")] = []


class FindCoordinatorRequest(Request):
    VERSIONS = "0-6"
    FLEXIBLE = "3+"
    API_KEY = 10
    RESPONSE = FindCoordinatorResponse

    key: Annotated[string, since("0-3")] = ""
    key_type: Annotated[int8, since("1+")] = 0
    coordinator_keys: Annotated[list[string], since("4+")] = []
