"""AlterReplicaLogDirs (key 34), v1-v2. Moves replicas between directories of one broker (KIP-113)."""

from __future__ import annotations

from tidelog.wire.schema import Message, Request, Response, int16, int32, string


class AlterReplicaLogDirPartitionResult(Message):
    partition_index: int32 = 0
    error_code: int16 = 0


class AlterReplicaLogDirTopicResult(Message):
    topic_name: string = ""
    partitions: list[AlterReplicaLogDirPartitionResult] = []


class AlterReplicaLogDirsResponse(Response):
    VERSIONS = "1-2"
    FLEXIBLE = "2+"
    API_KEY = 34

    throttle_time_ms: int32 = 0
    results: list[AlterReplicaLogDirTopicResult] = []


class AlterReplicaLogDirTopic(Message):
    name: string = ""
    partitions: list[int32] = []


class AlterReplicaLogDir(Message):
    path: string = ""
    topics: list[AlterReplicaLogDirTopic] = []


class AlterReplicaLogDirsRequest(Request):
    VERSIONS = "1-2"
    FLEXIBLE = "2+"
    API_KEY = 34
    RESPONSE = AlterReplicaLogDirsResponse

    dirs: list[AlterReplicaLogDir] = []
