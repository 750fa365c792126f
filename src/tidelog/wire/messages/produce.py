"""Produce (key 0), v3-v13. v3: transactional id (KIP-98). v5: log start offset. v7: zstd (KIP-110). v8: per-record
errors (KIP-467). v10: leader hints (KIP-951). v11: the error TRANSACTION_ABORTABLE, v12: partitions join the
transaction by themselves (KIP-890). v13: topic ids (KIP-516)."""

from __future__ import annotations

from typing import Annotated

from msgspec import field

from tidelog.model.ids import ZERO_UUID
from tidelog.wire import schema
from tidelog.wire.schema import (
    Message,
    Request,
    Response,
    ignorable,
    int16,
    int32,
    int64,
    nullable,
    since,
    string,
    tag,
    usually,
    uuid,
)


class BatchIndexAndErrorMessage(Message):
    batch_index: int32 = 0
    batch_index_error_message: Annotated[string | None, nullable("8+")] = None


class LeaderIdAndEpoch(Message):
    leader_id: int32 = -1
    leader_epoch: int32 = -1


class PartitionProduceResponse(Message):
    index: int32 = 0
    error_code: int16 = 0
    base_offset: int64 = 0
    log_append_time_ms: int64 = -1
    log_start_offset: Annotated[int64, since("5+"), ignorable] = -1
    record_errors: Annotated[list[BatchIndexAndErrorMessage], since("8+"), ignorable] = []
    error_message: Annotated[string | None, since("8+"), nullable("8+"), ignorable] = None
    current_leader: Annotated[LeaderIdAndEpoch, tag(0, "10+")] = field(default_factory=LeaderIdAndEpoch)


class TopicProduceResponse(Message):
    name: Annotated[string, since("0-12"), ignorable] = ""
    topic_id: Annotated[uuid, since("13+"), ignorable] = ZERO_UUID
    partition_responses: Annotated[list[PartitionProduceResponse], usually(1)] = []


class NodeEndpoint(Message):
    node_id: int32 = 0
    host: string = ""
    port: int32 = 0
    rack: Annotated[string | None, nullable("10+")] = None


class ProduceResponse(Response):
    VERSIONS = "3-13"
    FLEXIBLE = "9+"
    API_KEY = 0

    responses: Annotated[list[TopicProduceResponse], usually(1)] = []
    throttle_time_ms: int32 = 0
    node_endpoints: Annotated[list[NodeEndpoint], tag(0, "10+")] = []


class PartitionProduceData(Message):
    index: int32 = 0
    records: Annotated[schema.records | None, nullable("0+")] = None


class TopicProduceData(Message):
    name: Annotated[string, since("0-12"), ignorable] = ""
    topic_id: Annotated[uuid, since("13+"), ignorable] = ZERO_UUID
    partition_data: Annotated[list[PartitionProduceData], usually(1)] = []


class ProduceRequest(Request):
    VERSIONS = "3-13"
    FLEXIBLE = "9+"
    API_KEY = 0
    RESPONSE = ProduceResponse

    transactional_id: Annotated[string | None, nullable("3+")] = None
    acks: int16 = 0
    timeout_ms: int32 = 0
    topic_data: Annotated[list[TopicProduceData], usually(1)] = []
