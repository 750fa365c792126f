"""AddRaftVoter (key 80), v0-v1, KIP-853. v1: may be answered before the change is committed (KIP-1186)."""

from __future__ import annotations

from typing import Annotated

from tidelog.model.ids import ZERO_UUID
from tidelog.wire.schema import Message, Request, Response, bool_, int16, int32, nullable, since, string, uint16, uuid


class AddRaftVoterResponse(Response):
    VERSIONS = "0-1"
    FLEXIBLE = "0+"
    API_KEY = 80

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: Annotated[string | None, nullable("0+")] = ""


class Listener(Message):
    name: string = ""
    host: string = ""
    port: uint16 = 0


class AddRaftVoterRequest(Request):
    VERSIONS = "0-1"
    FLEXIBLE = "0+"
    API_KEY = 80
    RESPONSE = AddRaftVoterResponse

    cluster_id: Annotated[string | None, nullable("0+")] = ""
    timeout_ms: int32 = 0
    voter_id: int32 = 0
    voter_directory_id: uuid = ZERO_UUID
    listeners: list[Listener] = []
    ack_when_committed: Annotated[bool_, since("1+")] = True
