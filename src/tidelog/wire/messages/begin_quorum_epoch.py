"""BeginQuorumEpoch (key 53), v0-v1. A new leader of the metadata quorum makes itself known (KIP-595). v1: endpoints and
directory ids (KIP-853)."""

from __future__ import annotations

from typing import Annotated

from tidelog.model.ids import ZERO_UUID
from tidelog.wire.schema import (
    Message,
    Request,
    Response,
    ignorable,
    int16,
    int32,
    nullable,
    since,
    string,
    tag,
    uint16,
    uuid,
)


class BeginQuorumEpochResponsePartitionData(Message):
    partition_index: int32 = 0
    error_code: int16 = 0
    leader_id: int32 = 0
    leader_epoch: int32 = 0


class BeginQuorumEpochResponseTopicData(Message):
    topic_name: string = ""
    partitions: list[BeginQuorumEpochResponsePartitionData] = []


class NodeEndpoint(Message):
    node_id: int32 = 0
    host: string = ""
    port: uint16 = 0


class BeginQuorumEpochResponse(Response):
    VERSIONS = "0-1"
    FLEXIBLE = "1+"
    API_KEY = 53

    error_code: int16 = 0
    topics: list[BeginQuorumEpochResponseTopicData] = []
    node_endpoints: Annotated[list[NodeEndpoint], tag(0, "1+")] = []


class BeginQuorumEpochRequestPartitionData(Message):
    partition_index: int32 = 0
    voter_directory_id: Annotated[uuid, since("1+"), ignorable] = ZERO_UUID
    leader_id: int32 = 0
    leader_epoch: int32 = 0


class BeginQuorumEpochRequestTopicData(Message):
    topic_name: string = ""
    partitions: list[BeginQuorumEpochRequestPartitionData] = []


class LeaderEndpoint(Message):
    name: string = ""
    host: string = ""
    port: uint16 = 0


class BeginQuorumEpochRequest(Request):
    VERSIONS = "0-1"
    FLEXIBLE = "1+"
    API_KEY = 53
    RESPONSE = BeginQuorumEpochResponse

    cluster_id: Annotated[string | None, nullable("0+")] = None
    voter_id: Annotated[int32, since("1+"), ignorable] = -1
    topics: list[BeginQuorumEpochRequestTopicData] = []
    leader_endpoints: Annotated[list[LeaderEndpoint], since("1+"), ignorable] = []
