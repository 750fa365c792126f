"""Fetch (key 1), v4-v18. v4: isolation level (KIP-98). v5: log start offset. v7: fetch sessions (KIP-227). v9: leader
epoch (KIP-320). v10: zstd (KIP-110). v11: rack and preferred replica (KIP-392). v12: diverging epoch (KIP-595).
v13: topic ids (KIP-516). v14: data moved to tiered storage is an error (KIP-405). v15: replica state (KIP-903).
v16: leader hints (KIP-951). v17: replica directory id (KIP-853). v18: the follower's high watermark (KIP-1166)."""

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
    int8,
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


class EpochEndOffset(Message):
    epoch: int32 = -1
    end_offset: int64 = -1


class LeaderIdAndEpoch(Message):
    leader_id: int32 = -1
    leader_epoch: int32 = -1


class SnapshotId(Message):
    end_offset: int64 = -1
    epoch: int32 = -1


class AbortedTransaction(Message):
    producer_id: int64 = 0
    first_offset: int64 = 0


class PartitionData(Message):
    partition_index: int32 = 0
    error_code: int16 = 0
    high_watermark: int64 = 0
    last_stable_offset: int64 = -1
    log_start_offset: Annotated[int64, since("5+"), ignorable] = -1
    diverging_epoch: Annotated[EpochEndOffset, tag(0, "12+")] = field(default_factory=EpochEndOffset)
    current_leader: Annotated[LeaderIdAndEpoch, tag(1, "12+")] = field(default_factory=LeaderIdAndEpoch)
    snapshot_id: Annotated[SnapshotId, tag(2, "12+")] = field(default_factory=SnapshotId)
    aborted_transactions: Annotated[list[AbortedTransaction] | None, nullable("4+")] = []
    preferred_read_replica: Annotated[int32, since("11+")] = -1
    records: Annotated[schema.records | None, nullable("0+")] = None


class FetchableTopicResponse(Message):
    topic: Annotated[string, since("0-12"), ignorable] = ""
    topic_id: Annotated[uuid, since("13+"), ignorable] = ZERO_UUID
    partitions: Annotated[list[PartitionData], usually(1)] = []


class NodeEndpoint(Message):
    node_id: int32 = 0
    host: string = ""
    port: int32 = 0
    rack: Annotated[string | None, nullable("16+")] = None


class FetchResponse(Response):
    VERSIONS = "4-18"
    FLEXIBLE = "12+"
    API_KEY = 1

    throttle_time_ms: int32 = 0
    error_code: Annotated[int16, since("7+"), ignorable] = 0
    session_id: Annotated[int32, since("7+")] = 0
    responses: Annotated[list[FetchableTopicResponse], usually(1)] = []
    node_endpoints: Annotated[list[NodeEndpoint], tag(0, "16+")] = []


class ReplicaState(Message):
    replica_id: int32 = -1
    replica_epoch: int64 = -1


class FetchPartition(Message):
    partition: int32 = 0
    current_leader_epoch: Annotated[int32, since("9+"), ignorable] = -1
    fetch_offset: int64 = 0
    last_fetched_epoch: Annotated[int32, since("12+")] = -1
    log_start_offset: Annotated[int64, since("5+"), ignorable] = -1
    partition_max_bytes: int32 = 0
    replica_directory_id: Annotated[uuid, tag(0, "17+"), ignorable] = ZERO_UUID
    high_watermark: Annotated[int64, tag(1, "18+"), ignorable] = 0x7FFFFFFFFFFFFFFF


class FetchTopic(Message):
    topic: Annotated[string, since("0-12"), ignorable] = ""
    topic_id: Annotated[uuid, since("13+"), ignorable] = ZERO_UUID
    partitions: Annotated[list[FetchPartition], usually(1)] = []


class ForgottenTopic(Message):
    topic: Annotated[string, since("7-12"), ignorable] = ""
    topic_id: Annotated[uuid, since("13+"), ignorable] = ZERO_UUID
    partitions: list[int32] = []


class FetchRequest(Request):
    VERSIONS = "4-18"
    FLEXIBLE = "12+"
    API_KEY = 1
    RESPONSE = FetchResponse

    cluster_id: Annotated[string | None, tag(0, "12+"), nullable("12+"), ignorable] = None
    replica_id: Annotated[int32, since("0-14")] = -1
    replica_state: Annotated[ReplicaState, tag(1, "15+")] = field(default_factory=ReplicaState)
    max_wait_ms: int32 = 0
    min_bytes: int32 = 0
    max_bytes: int32 = 0x7FFFFFFF
    isolation_level: int8 = 0
    session_id: Annotated[int32, since("7+"), ignorable] = 0
    session_epoch: Annotated[int32, since("7+"), ignorable] = -1
    topics: Annotated[list[FetchTopic], usually(1)] = []
    forgotten_topics_data: Annotated[list[ForgottenTopic], since("7+")] = []
    rack_id: Annotated[string, since("11+"), ignorable, usually(0)] = ""
