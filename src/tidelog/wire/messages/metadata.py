"""Metadata (key 3), v0-v13. v1: null asks for every topic; controller and racks. v2: cluster id (KIP-78).
v4: auto-creation is the client's choice. v5: offline replicas (KIP-112). v7: leader epoch (KIP-320). v8: authorized
operations (KIP-430). v10: topic ids in answers, v12: and in questions (KIP-516). v11: no cluster operations, see
DescribeCluster (KIP-700). v13: an error for the whole answer (KIP-1102)."""

from __future__ import annotations

from typing import Annotated

from tidelog.model.ids import ZERO_UUID
from tidelog.wire.schema import (
    Message,
    Request,
    Response,
    bool_,
    ignorable,
    int16,
    int32,
    nullable,
    since,
    string,
    uuid,
)


class MetadataResponseBroker(Message):
    node_id: int32 = 0
    host: string = ""
    port: int32 = 0
    rack: Annotated[string | None, since("1+"), nullable("1+"), ignorable] = None


class MetadataResponsePartition(Message):
    error_code: int16 = 0
    partition_index: int32 = 0
    leader_id: int32 = 0
    leader_epoch: Annotated[int32, since("7+"), ignorable] = -1
    replica_nodes: list[int32] = []
    isr_nodes: list[int32] = []
    offline_replicas: Annotated[list[int32], since("5+"), ignorable] = []


class MetadataResponseTopic(Message):
    error_code: int16 = 0
    name: Annotated[string | None, nullable("12+")] = ""
    topic_id: Annotated[uuid, since("10+"), ignorable] = ZERO_UUID
    is_internal: Annotated[bool_, since("1+"), ignorable] = False
    partitions: list[MetadataResponsePartition] = []
    topic_authorized_operations: Annotated[int32, since("8+")] = -2147483648


class MetadataResponse(Response):
    VERSIONS = "0-13"
    FLEXIBLE = "9+"
    API_KEY = 3

    throttle_time_ms: Annotated[int32, since("3+"), ignorable] = 0
    brokers: list[MetadataResponseBroker] = []
    cluster_id: Annotated[string | None, since("2+"), nullable("2+"), ignorable] = None
    controller_id: Annotated[int32, since("1+"), ignorable] = -1
    topics: list[MetadataResponseTopic] = []
    cluster_authorized_operations: Annotated[int32, since("8-10")] = -2147483648
    error_code: Annotated[int16, since("13+"), ignorable] = 0


class MetadataRequestTopic(Message):
    topic_id: Annotated[uuid, since("10+"), ignorable] = ZERO_UUID
    name: Annotated[string | None, nullable("10+")] = ""


class MetadataRequest(Request):
    VERSIONS = "0-13"
    FLEXIBLE = "9+"
    API_KEY = 3
    RESPONSE = MetadataResponse

    topics: Annotated[list[MetadataRequestTopic] | None, nullable("1+")] = []
    allow_auto_topic_creation: Annotated[bool_, since("4+")] = True
    include_cluster_authorized_operations: Annotated[bool_, since("8-10")] = False
    include_topic_authorized_operations: Annotated[bool_, since("8+")] = False
