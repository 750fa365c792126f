"""DescribeTransactions (key 65), v0, KIP-664."""

from __future__ import annotations

from tidelog.wire.schema import Message, Request, Response, int16, int32, int64, string


class TopicData(Message):
    topic: string = ""
    partitions: list[int32] = []


class TransactionState(Message):
    error_code: int16 = 0
    transactional_id: string = ""
    transaction_state: string = ""
    transaction_timeout_ms: int32 = 0
    transaction_start_time_ms: int64 = 0
    producer_id: int64 = 0
    producer_epoch: int16 = 0
    topics: list[TopicData] = []


class DescribeTransactionsResponse(Response):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 65

    throttle_time_ms: int32 = 0
    transaction_states: list[TransactionState] = []


class DescribeTransactionsRequest(Request):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 65
    RESPONSE = DescribeTransactionsResponse

    transactional_ids: list[string] = []
