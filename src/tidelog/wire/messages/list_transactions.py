"""ListTransactions (key 66), v0-v2, KIP-664. v1: filter by duration (KIP-994). v2: filter by a pattern of ids
(KIP-1152)."""

from __future__ import annotations

from typing import Annotated

from tidelog.wire.schema import Message, Request, Response, int16, int32, int64, nullable, since, string


class TransactionState(Message):
    transactional_id: string = ""
    producer_id: int64 = 0
    transaction_state: string = ""


class ListTransactionsResponse(Response):
    VERSIONS = "0-2"
    FLEXIBLE = "0+"
    API_KEY = 66

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    unknown_state_filters: list[string] = []
    transaction_states: list[TransactionState] = []


class ListTransactionsRequest(Request):
    VERSIONS = "0-2"
    FLEXIBLE = "0+"
    API_KEY = 66
    RESPONSE = ListTransactionsResponse

    state_filters: list[string] = []
    producer_id_filters: list[int64] = []
    duration_filter: Annotated[int64, since("1+")] = -1
    transactional_id_pattern: Annotated[string | None, since("2+"), nullable("2+")] = None
