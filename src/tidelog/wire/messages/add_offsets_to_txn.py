"""AddOffsetsToTxn (key 25), v0-v4. Adds a group's offsets partition to a transaction (KIP-98). v4: the error
TRANSACTION_ABORTABLE (KIP-890)."""

from __future__ import annotations

from tidelog.wire.schema import Request, Response, int16, int32, int64, string


class AddOffsetsToTxnResponse(Response):
    VERSIONS = "0-4"
    FLEXIBLE = "3+"
    API_KEY = 25

    throttle_time_ms: int32 = 0
    error_code: int16 = 0


class AddOffsetsToTxnRequest(Request):
    VERSIONS = "0-4"
    FLEXIBLE = "3+"
    API_KEY = 25
    RESPONSE = AddOffsetsToTxnResponse

    transactional_id: string = ""
    producer_id: int64 = 0
    producer_epoch: int16 = 0
    group_id: string = ""
