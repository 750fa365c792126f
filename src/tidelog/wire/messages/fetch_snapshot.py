"""FetchSnapshot (key 59), v0-v1. Reads a snapshot of the metadata log piece by piece (KIP-630). v1: endpoints and
directory ids (KIP-853)."""

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
    string,
    tag,
    uint16,
    uuid,
)


class SnapshotId(Message):
    end_offset: int64 = 0
    epoch: int32 = 0


class LeaderIdAndEpoch(Message):
    leader_id: int32 = 0
    leader_epoch: int32 = 0


class FetchSnapshotResponsePartitionSnapshot(Message):
    index: int32 = 0
    error_code: int16 = 0
    snapshot_id: SnapshotId = field(default_factory=SnapshotId)
    current_leader: Annotated[LeaderIdAndEpoch, tag(0, "0+")] = field(default_factory=LeaderIdAndEpoch)
    size: int64 = 0
    position: int64 = 0
    unaligned_records: schema.records = b""


class FetchSnapshotResponseTopicSnapshot(Message):
    name: string = ""
    partitions: list[FetchSnapshotResponsePartitionSnapshot] = []


class NodeEndpoint(Message):
    node_id: int32 = 0
    host: string = ""
    port: uint16 = 0


class FetchSnapshotResponse(Response):
    VERSIONS = "0-1"
    FLEXIBLE = "0+"
    API_KEY = 59

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    topics: list[FetchSnapshotResponseTopicSnapshot] = []
    node_endpoints: Annotated[list[NodeEndpoint], tag(0, "1+")] = []


class FetchSnapshotRequestPartitionSnapshot(Message):
    partition: int32 = 0
    current_leader_epoch: int32 = 0
    snapshot_id: SnapshotId = field(default_factory=SnapshotId)
    position: int64 = 0
    replica_directory_id: Annotated[uuid, tag(0, "1+"), ignorable] = ZERO_UUID


class FetchSnapshotRequestTopicSnapshot(Message):
    name: string = ""
    partitions: list[FetchSnapshotRequestPartitionSnapshot] = []


class FetchSnapshotRequest(Request):
    VERSIONS = "0-1"
    FLEXIBLE = "0+"
    API_KEY = 59
    RESPONSE = FetchSnapshotResponse

    cluster_id: Annotated[string | None, tag(0, "0+"), nullable("0+")] = None
    replica_id: int32 = -1
    max_bytes: int32 = 0x7FFFFFFF
    topics: list[FetchSnapshotRequestTopicSnapshot] = []
