"""DeleteRecords (key 21), v0-v2. Moves the log start offset forward (KIP-107). v1: throttled answers are sent at once
(KIP-219)."""

from __future__ import annotations

from tidelog.wire.schema import Message, Request, Response, int16, int32, int64, string


class DeleteRecordsPartitionResult(Message):
    partition_index: int32 = 0
    low_watermark: int64 = 0
    error_code: int16 = 0


class DeleteRecordsTopicResult(Message):
    name: string = ""
    partitions: list[DeleteRecordsPartitionResult] = []


class DeleteRecordsResponse(Response):
    VERSIONS = "0-2"
    FLEXIBLE = "2+"
    API_KEY = 21

    throttle_time_ms: int32 = 0
    topics: list[DeleteRecordsTopicResult] = []


class DeleteRecordsPartition(Message):
    partition_index: int32 = 0
    offset: int64 = 0


class DeleteRecordsTopic(Message):
    name: string = ""
    partitions: list[DeleteRecordsPartition] = []


class DeleteRecordsRequest(Request):
    VERSIONS = "0-2"
    FLEXIBLE = "2+"
    API_KEY = 21
    RESPONSE = DeleteRecordsResponse

    topics: list[DeleteRecordsTopic] = []
    timeout_ms: int32 = 0
