"""RemoveRaftVoter (key 81), v0, KIP-853."""

from __future__ import annotations

from typing import Annotated

from tidelog.model.ids import ZERO_UUID
from tidelog.wire.schema import Request, Response, int16, int32, nullable, string, uuid


class RemoveRaftVoterResponse(Response):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 81

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: Annotated[string | None, nullable("0+")] = ""


class RemoveRaftVoterRequest(Request):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 81
    RESPONSE = RemoveRaftVoterResponse

    cluster_id: Annotated[string | None, nullable("0+")] = ""
    voter_id: int32 = 0
    voter_directory_id: uuid = ZERO_UUID
