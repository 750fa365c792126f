"""AddPartitionsToTxn (key 24), v0-v5. v0-v3: one transaction, from clients (KIP-98). v4: several, from brokers, also
only to verify (KIP-890)."""

from __future__ import annotations

from typing import Annotated

from tidelog.wire.schema import Message, Request, Response, bool_, ignorable, int16, int32, int64, since, string


class AddPartitionsToTxnPartitionResult(Message):
    partition_index: int32 = 0
    partition_error_code: int16 = 0


class AddPartitionsToTxnTopicResult(Message):
    name: string = ""
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = []


class AddPartitionsToTxnResult(Message):
    transactional_id: string = ""
    topic_results: list[AddPartitionsToTxnTopicResult] = []


class AddPartitionsToTxnResponse(Response):
    VERSIONS = "0-5"
    FLEXIBLE = "3+"
    API_KEY = 24

    throttle_time_ms: int32 = 0
    error_code: Annotated[int16, since("4+"), ignorable] = 0
    results_by_transaction: Annotated[list[AddPartitionsToTxnResult], since("4+")] = []
    results_by_topic_v3_and_below: Annotated[list[AddPartitionsToTxnTopicResult], since("0-3")] = []


class AddPartitionsToTxnTopic(Message):
    name: string = ""
    partitions: list[int32] = []


class AddPartitionsToTxnTransaction(Message):
    transactional_id: string = ""
    producer_id: int64 = 0
    producer_epoch: int16 = 0
    verify_only: bool_ = False
    topics: list[AddPartitionsToTxnTopic] = []


class AddPartitionsToTxnRequest(Request):
    VERSIONS = "0-5"
    FLEXIBLE = "3+"
    API_KEY = 24
    RESPONSE = AddPartitionsToTxnResponse

    transactions: Annotated[list[AddPartitionsToTxnTransaction], since("4+")] = []
    v3_and_below_transactional_id: Annotated[string, since("0-3")] = ""
    v3_and_below_producer_id: Annotated[int64, since("0-3")] = 0
    v3_and_below_producer_epoch: Annotated[int16, since("0-3")] = 0
    v3_and_below_topics: Annotated[list[AddPartitionsToTxnTopic], since("0-3")] = []
