"""AssignReplicasToDirs (key 73), v0. A broker tells the controller in which directories its replicas are (KIP-858)."""

from __future__ import annotations

from tidelog.model.ids import ZERO_UUID
from tidelog.wire.schema import Message, Request, Response, int16, int32, int64, uuid


class AssignReplicasToDirsResponsePartitionData(Message):
    partition_index: int32 = 0
    error_code: int16 = 0


class AssignReplicasToDirsResponseTopicData(Message):
    topic_id: uuid = ZERO_UUID
    partitions: list[AssignReplicasToDirsResponsePartitionData] = []


class AssignReplicasToDirsResponseDirectoryData(Message):
    id: uuid = ZERO_UUID
    topics: list[AssignReplicasToDirsResponseTopicData] = []


class AssignReplicasToDirsResponse(Response):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 73

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    directories: list[AssignReplicasToDirsResponseDirectoryData] = []


class AssignReplicasToDirsRequestPartitionData(Message):
    partition_index: int32 = 0


class AssignReplicasToDirsRequestTopicData(Message):
    topic_id: uuid = ZERO_UUID
    partitions: list[AssignReplicasToDirsRequestPartitionData] = []


class AssignReplicasToDirsRequestDirectoryData(Message):
    id: uuid = ZERO_UUID
    topics: list[AssignReplicasToDirsRequestTopicData] = []


class AssignReplicasToDirsRequest(Request):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 73
    RESPONSE = AssignReplicasToDirsResponse

    broker_id: int32 = 0
    broker_epoch: int64 = -1
    directories: list[AssignReplicasToDirsRequestDirectoryData] = []
