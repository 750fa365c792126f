"""DescribeQuorum (key 55), v0-v2, KIP-595. v1: times of the last fetch (KIP-836). v2: endpoints and directory ids
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
    int64,
    nullable,
    since,
    string,
    uint16,
    uuid,
)


class ReplicaState(Message):
    replica_id: int32 = 0
    replica_directory_id: Annotated[uuid, since("2+")] = ZERO_UUID
    log_end_offset: int64 = 0
    last_fetch_timestamp: Annotated[int64, since("1+"), ignorable] = -1
    last_caught_up_timestamp: Annotated[int64, since("1+"), ignorable] = -1


class DescribeQuorumResponsePartitionData(Message):
    partition_index: int32 = 0
    error_code: int16 = 0
    error_message: Annotated[string | None, since("2+"), nullable("2+"), ignorable] = ""
    leader_id: int32 = 0
    leader_epoch: int32 = 0
    high_watermark: int64 = 0
    current_voters: list[ReplicaState] = []
    observers: list[ReplicaState] = []


class DescribeQuorumResponseTopicData(Message):
    topic_name: string = ""
    partitions: list[DescribeQuorumResponsePartitionData] = []


class Listener(Message):
    name: string = ""
    host: string = ""
    port: uint16 = 0


class Node(Message):
    node_id: int32 = 0
    listeners: list[Listener] = []


class DescribeQuorumResponse(Response):
    VERSIONS = "0-2"
    FLEXIBLE = "0+"
    API_KEY = 55

    error_code: int16 = 0
    error_message: Annotated[string | None, since("2+"), nullable("2+"), ignorable] = ""
    topics: list[DescribeQuorumResponseTopicData] = []
    nodes: Annotated[list[Node], since("2+")] = []


class DescribeQuorumRequestPartitionData(Message):
    partition_index: int32 = 0


class DescribeQuorumRequestTopicData(Message):
    topic_name: string = ""
    partitions: list[DescribeQuorumRequestPartitionData] = []


class DescribeQuorumRequest(Request):
    VERSIONS = "0-2"
    FLEXIBLE = "0+"
    API_KEY = 55
    RESPONSE = DescribeQuorumResponse

    topics: list[DescribeQuorumRequestTopicData] = []
