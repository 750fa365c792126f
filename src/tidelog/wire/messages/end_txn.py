"""EndTxn (key 26), v0-v5. Commits or aborts a transaction (KIP-98). v4: the error TRANSACTION_ABORTABLE, v5: the next
producer id and epoch in the answer (KIP-890)."""

from __future__ import annotations

from typing import Annotated

from tidelog.wire.schema import Request, Response, bool_, ignorable, int16, int32, int64, since, string


class EndTxnResponse(Response):
    VERSIONS = "0-5"
    FLEXIBLE = "3+"
    API_KEY = 26

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    producer_id: Annotated[int64, since("5+"), ignorable] = -1
    producer_epoch: Annotated[int16, since("5+"), ignorable] = -1


class EndTxnRequest(Request):
    VERSIONS = "0-5"
    FLEXIBLE = "3+"
    API_KEY = 26
    RESPONSE = EndTxnResponse

    transactional_id: string = ""
    producer_id: int64 = 0
    producer_epoch: int16 = 0
    committed: bool_ = False
