"""LeaderAndIsr (key 4), v0-v7. ZooKeeper mode only. v2: broker epoch (KIP-380). v3: reassignment state (KIP-455).
v5: topic ids (KIP-516). v6: leader recovery state (KIP-704). v7: migration to a quorum (KIP-866)."""

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
    since,
    string,
    uuid,
)


class LeaderAndIsrPartitionError(Message):
    topic_name: Annotated[string, since("0-4"), ignorable] = ""
    partition_index: int32 = 0
    error_code: int16 = 0


class LeaderAndIsrTopicError(Message):
    topic_id: uuid = ZERO_UUID
    partition_errors: list[LeaderAndIsrPartitionError] = []


class LeaderAndIsrResponse(Response):
    VERSIONS = "0-7"
    FLEXIBLE = "4+"
    API_KEY = 4

    error_code: int16 = 0
    partition_errors: Annotated[list[LeaderAndIsrPartitionError], since("0-4")] = []
    topics: Annotated[list[LeaderAndIsrTopicError], since("5+")] = []


class LeaderAndIsrPartitionState(Message):
    topic_name: Annotated[string, since("0-1"), ignorable] = ""
    partition_index: int32 = 0
    controller_epoch: int32 = 0
    leader: int32 = 0
    leader_epoch: int32 = 0
    isr: list[int32] = []
    partition_epoch: int32 = 0
    replicas: list[int32] = []
    adding_replicas: Annotated[list[int32], since("3+"), ignorable] = []
    removing_replicas: Annotated[list[int32], since("3+"), ignorable] = []
    is_new: Annotated[bool_, since("1+"), ignorable] = False
    leader_recovery_state: Annotated[int8, since("6+")] = 0


class LeaderAndIsrTopicState(Message):
    topic_name: string = ""
    topic_id: Annotated[uuid, since("5+"), ignorable] = ZERO_UUID
    partition_states: list[LeaderAndIsrPartitionState] = []


class LeaderAndIsrLiveLeader(Message):
    broker_id: int32 = 0
    host_name: string = ""
    port: int32 = 0


class LeaderAndIsrRequest(Request):
    VERSIONS = "0-7"
    FLEXIBLE = "4+"
    API_KEY = 4
    RESPONSE = LeaderAndIsrResponse

    controller_id: int32 = 0
    is_kraft_controller: Annotated[bool_, since("7+")] = False
    controller_epoch: int32 = 0
    broker_epoch: Annotated[int64, since("2+"), ignorable] = -1
    type: Annotated[int8, since("5+")] = 0
    ungrouped_partition_states: Annotated[list[LeaderAndIsrPartitionState], since("0-1")] = []
    topic_states: Annotated[list[LeaderAndIsrTopicState], since("2+")] = []
    live_leaders: list[LeaderAndIsrLiveLeader] = []
