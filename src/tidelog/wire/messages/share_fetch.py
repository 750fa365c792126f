"""ShareFetch (key 78), v1-v2, KIP-932. v1: limit on records. v2: renewed acquisition and record-exact limits (KIP-1222,
KIP-1206)."""

from __future__ import annotations

from typing import Annotated

from msgspec import field

from tidelog.model.ids import ZERO_UUID
from tidelog.wire import schema
from tidelog.wire.schema import (
    Message,
    Request,
    Response,
    bool_,
    ignorable,
    int8,
    int16,
    int32,
    int64,
    nullable,
    since,
    string,
    uuid,
)


class LeaderIdAndEpoch(Message):
    leader_id: int32 = 0
    leader_epoch: int32 = 0


class AcquiredRecords(Message):
    first_offset: int64 = 0
    last_offset: int64 = 0
    delivery_count: int16 = 0


class PartitionData(Message):
    partition_index: int32 = 0
    error_code: int16 = 0
    error_message: Annotated[string | None, nullable("0+")] = None
    acknowledge_error_code: int16 = 0
    acknowledge_error_message: Annotated[string | None, nullable("0+")] = None
    current_leader: LeaderIdAndEpoch = field(default_factory=LeaderIdAndEpoch)
    records: schema.records = b""
    acquired_records: list[AcquiredRecords] = []


class ShareFetchableTopicResponse(Message):
    topic_id: uuid = ZERO_UUID
    partitions: list[PartitionData] = []


class NodeEndpoint(Message):
    node_id: int32 = 0
    host: string = ""
    port: int32 = 0
    rack: Annotated[string | None, nullable("0+")] = None


class ShareFetchResponse(Response):
    VERSIONS = "1-2"
    FLEXIBLE = "0+"
    API_KEY = 78

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: Annotated[string | None, nullable("0+")] = None
    acquisition_lock_timeout_ms: int32 = 0
    responses: list[ShareFetchableTopicResponse] = []
    node_endpoints: list[NodeEndpoint] = []


class AcknowledgementBatch(Message):
    first_offset: int64 = 0
    last_offset: int64 = 0
    acknowledge_types: list[int8] = []


class FetchPartition(Message):
    partition_index: int32 = 0
    acknowledgement_batches: list[AcknowledgementBatch] = []


class FetchTopic(Message):
    topic_id: uuid = ZERO_UUID
    partitions: list[FetchPartition] = []


class ForgottenTopic(Message):
    topic_id: uuid = ZERO_UUID
    partitions: list[int32] = []


class ShareFetchRequest(Request):
    VERSIONS = "1-2"
    FLEXIBLE = "0+"
    API_KEY = 78
    RESPONSE = ShareFetchResponse

    group_id: Annotated[string | None, nullable("0+")] = None
    member_id: Annotated[string | None, nullable("0+")] = ""
    share_session_epoch: int32 = 0
    max_wait_ms: int32 = 0
    min_bytes: int32 = 0
    max_bytes: int32 = 0x7FFFFFFF
    max_records: int32 = 0
    batch_size: int32 = 0
    share_acquire_mode: Annotated[int8, since("2+"), ignorable] = 0
    is_renew_ack: Annotated[bool_, since("2+")] = False
    topics: list[FetchTopic] = []
    forgotten_topics_data: list[ForgottenTopic] = []
