"""BrokerHeartbeat (key 63), v0-v1, KIP-631. v1: offline log directories (KIP-858)."""

from __future__ import annotations

from typing import Annotated

from tidelog.wire.schema import Request, Response, bool_, int16, int32, int64, tag, uuid


class BrokerHeartbeatResponse(Response):
    VERSIONS = "0-1"
    FLEXIBLE = "0+"
    API_KEY = 63

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    is_caught_up: bool_ = False
    is_fenced: bool_ = True
    should_shut_down: bool_ = False


class BrokerHeartbeatRequest(Request):
    VERSIONS = "0-1"
    FLEXIBLE = "0+"
    API_KEY = 63
    RESPONSE = BrokerHeartbeatResponse

    broker_id: int32 = 0
    broker_epoch: int64 = -1
    current_metadata_offset: int64 = 0
    want_fence: bool_ = False
    want_shut_down: bool_ = False
    offline_log_dirs: Annotated[list[uuid], tag(0, "1+")] = []
