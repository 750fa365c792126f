"""StopReplica (key 5), v0-v4. ZooKeeper mode only. v1: broker epoch (KIP-380). v3: leader epoch per partition
(KIP-570). v4: migration to a quorum (KIP-866)."""

from __future__ import annotations

from typing import Annotated

from tidelog.wire.schema import Message, Request, Response, bool_, ignorable, int16, int32, int64, since, string


class StopReplicaPartitionError(Message):
    topic_name: string = ""
    partition_index: int32 = 0
    error_code: int16 = 0


class StopReplicaResponse(Response):
    VERSIONS = "0-4"
    FLEXIBLE = "2+"
    API_KEY = 5

    error_code: int16 = 0
    partition_errors: list[StopReplicaPartitionError] = []


class StopReplicaPartitionV0(Message):
    topic_name: string = ""
    partition_index: int32 = 0


class StopReplicaTopicV1(Message):
    name: string = ""
    partition_indexes: list[int32] = []


class StopReplicaPartitionState(Message):
    partition_index: int32 = 0
    leader_epoch: int32 = -1
    delete_partition: bool_ = False


class StopReplicaTopicState(Message):
    topic_name: string = ""
    partition_states: list[StopReplicaPartitionState] = []


class StopReplicaRequest(Request):
    VERSIONS = "0-4"
    FLEXIBLE = "2+"
    API_KEY = 5
    RESPONSE = StopReplicaResponse

    controller_id: int32 = 0
    is_kraft_controller: Annotated[bool_, since("4+")] = False
    controller_epoch: int32 = 0
    broker_epoch: Annotated[int64, since("1+"), ignorable] = -1
    delete_partitions: Annotated[bool_, since("0-2")] = False
    ungrouped_partitions: Annotated[list[StopReplicaPartitionV0], since("0")] = []
    topics: Annotated[list[StopReplicaTopicV1], since("1-2")] = []
    topic_states: Annotated[list[StopReplicaTopicState], since("3+")] = []
