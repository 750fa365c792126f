"""DescribeProducers (key 61), v0, KIP-664."""

from __future__ import annotations

from typing import Annotated

from tidelog.wire.schema import Message, Request, Response, int16, int32, int64, nullable, string


class ProducerState(Message):
    producer_id: int64 = 0
    producer_epoch: int32 = 0
    last_sequence: int32 = -1
    last_timestamp: int64 = -1
    coordinator_epoch: int32 = 0
    current_txn_start_offset: int64 = -1


class PartitionResponse(Message):
    partition_index: int32 = 0
    error_code: int16 = 0
    error_message: Annotated[string | None, nullable("0+")] = None
    active_producers: list[ProducerState] = []


class TopicResponse(Message):
    name: string = ""
    partitions: list[PartitionResponse] = []


class DescribeProducersResponse(Response):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 61

    throttle_time_ms: int32 = 0
    topics: list[TopicResponse] = []


class TopicRequest(Message):
    name: string = ""
    partition_indexes: list[int32] = []


class DescribeProducersRequest(Request):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 61
    RESPONSE = DescribeProducersResponse

    topics: list[TopicRequest] = []
