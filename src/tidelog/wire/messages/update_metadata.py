"""UpdateMetadata (key 6), v0-v8. ZooKeeper mode only. v4: offline replicas (KIP-112). v5: broker epoch (KIP-380).
v7: topic ids (KIP-516). v8: migration to a quorum (KIP-866)."""

from __future__ import annotations

from typing import Annotated

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
    tag,
    uuid,
)


class UpdateMetadataResponse(Response):
    VERSIONS = "0-8"
    FLEXIBLE = "6+"
    API_KEY = 6

    error_code: int16 = 0


class UpdateMetadataPartitionState(Message):
    topic_name: Annotated[string, since("0-4"), ignorable] = ""
    partition_index: int32 = 0
    controller_epoch: int32 = 0
    leader: int32 = 0
    leader_epoch: int32 = 0
    isr: list[int32] = []
    zk_version: int32 = 0
    replicas: list[int32] = []
    offline_replicas: Annotated[list[int32], since("4+"), ignorable] = []


class UpdateMetadataTopicState(Message):
    topic_name: string = ""
    topic_id: Annotated[uuid, since("7+"), ignorable] = ZERO_UUID
    partition_states: list[UpdateMetadataPartitionState] = []


class UpdateMetadataEndpoint(Message):
    port: int32 = 0
    host: string = ""
    listener: Annotated[string, since("3+"), ignorable] = ""
    security_protocol: int16 = 0


class UpdateMetadataBroker(Message):
    id: int32 = 0
    v0_host: Annotated[string, since("0"), ignorable] = ""
    v0_port: Annotated[int32, since("0"), ignorable] = 0
    endpoints: Annotated[list[UpdateMetadataEndpoint], since("1+"), ignorable] = []
    rack: Annotated[string | None, since("2+"), nullable("2+"), ignorable] = ""


class UpdateMetadataRequest(Request):
    VERSIONS = "0-8"
    FLEXIBLE = "6+"
    API_KEY = 6
    RESPONSE = UpdateMetadataResponse

    controller_id: int32 = 0
    is_kraft_controller: Annotated[bool_, since("8+")] = False
    type: Annotated[int8, tag(0, "8+")] = 0
    controller_epoch: int32 = 0
    broker_epoch: Annotated[int64, since("5+"), ignorable] = -1
    ungrouped_partition_states: Annotated[list[UpdateMetadataPartitionState], since("0-4")] = []
    topic_states: Annotated[list[UpdateMetadataTopicState], since("5+")] = []
    live_brokers: list[UpdateMetadataBroker] = []
