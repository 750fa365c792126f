"""AllocateProducerIds (key 67), v0. A broker takes a block of producer ids from the controller (KIP-730)."""

from __future__ import annotations

from tidelog.wire.schema import Request, Response, int16, int32, int64


class AllocateProducerIdsResponse(Response):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 67

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    producer_id_start: int64 = 0
    producer_id_len: int32 = 0


class AllocateProducerIdsRequest(Request):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 67
    RESPONSE = AllocateProducerIdsResponse

    broker_id: int32 = 0
    broker_epoch: int64 = -1
