"""EndQuorumEpoch (key 54), v0-v1. A leader of the metadata quorum resigns (KIP-595). v1: endpoints and directory ids
(KIP-853)."""

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


class EndQuorumEpochResponsePartitionData(Message):
    partition_index: int32 = 0
    error_code: int16 = 0
    leader_id: int32 = 0
    leader_epoch: int32 = 0


class EndQuorumEpochResponseTopicData(Message):
    topic_name: string = ""
    partitions: list[EndQuorumEpochResponsePartitionData] = []


class NodeEndpoint(Message):
    node_id: int32 = 0
    host: string = ""
    port: uint16 = 0


class EndQuorumEpochResponse(Response):
    VERSIONS = "0-1"
    FLEXIBLE = "1+"
    API_KEY = 54

    error_code: int16 = 0
    topics: list[EndQuorumEpochResponseTopicData] = []
    node_endpoints: Annotated[list[NodeEndpoint], tag(0, "1+")] = []


class ReplicaInfo(Message):
    candidate_id: int32 = 0
    candidate_directory_id: uuid = ZERO_UUID


class EndQuorumEpochRequestPartitionData(Message):
    partition_index: int32 = 0
    leader_id: int32 = 0
    leader_epoch: int32 = 0
    preferred_successors: Annotated[list[int32], since("0"), ignorable] = []
    preferred_candidates: Annotated[list[ReplicaInfo], since("1+"), ignorable] = []


class EndQuorumEpochRequestTopicData(Message):
    topic_name: string = ""
    partitions: list[EndQuorumEpochRequestPartitionData] = []


class LeaderEndpoint(Message):
    name: string = ""
    host: string = ""
    port: uint16 = 0


class EndQuorumEpochRequest(Request):
    VERSIONS = "0-1"
    FLEXIBLE = "1+"
    API_KEY = 54
    RESPONSE = EndQuorumEpochResponse

    cluster_id: Annotated[string | None, nullable("0+")] = None
    topics: list[EndQuorumEpochRequestTopicData] = []
    leader_endpoints: Annotated[list[LeaderEndpoint], since("1+"), ignorable] = []
