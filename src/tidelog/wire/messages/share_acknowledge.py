"""ShareAcknowledge (key 79), v1-v2, KIP-932. v2: renewed acquisition (KIP-1222)."""

from __future__ import annotations

from typing import Annotated

from msgspec import field

from tidelog.model.ids import ZERO_UUID
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


class PartitionData(Message):
    partition_index: int32 = 0
    error_code: int16 = 0
    error_message: Annotated[string | None, nullable("0+")] = None
    current_leader: LeaderIdAndEpoch = field(default_factory=LeaderIdAndEpoch)


class ShareAcknowledgeTopicResponse(Message):
    topic_id: uuid = ZERO_UUID
    partitions: list[PartitionData] = []


class NodeEndpoint(Message):
    node_id: int32 = 0
    host: string = ""
    port: int32 = 0
    rack: Annotated[string | None, nullable("0+")] = None


class ShareAcknowledgeResponse(Response):
    VERSIONS = "1-2"
    FLEXIBLE = "0+"
    API_KEY = 79

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: Annotated[string | None, nullable("0+")] = None
    acquisition_lock_timeout_ms: Annotated[int32, since("2+"), ignorable] = 0
    responses: list[ShareAcknowledgeTopicResponse] = []
    node_endpoints: list[NodeEndpoint] = []


class AcknowledgementBatch(Message):
    first_offset: int64 = 0
    last_offset: int64 = 0
    acknowledge_types: list[int8] = []


class AcknowledgePartition(Message):
    partition_index: int32 = 0
    acknowledgement_batches: list[AcknowledgementBatch] = []


class AcknowledgeTopic(Message):
    topic_id: uuid = ZERO_UUID
    partitions: list[AcknowledgePartition] = []


class ShareAcknowledgeRequest(Request):
    VERSIONS = "1-2"
    FLEXIBLE = "0+"
    API_KEY = 79
    RESPONSE = ShareAcknowledgeResponse

    group_id: Annotated[string | None, nullable("0+")] = None
    member_id: Annotated[string | None, nullable("0+")] = ""
    share_session_epoch: int32 = 0
    is_renew_ack: Annotated[bool_, since("2+")] = False
    topics: list[AcknowledgeTopic] = []
