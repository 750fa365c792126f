"""ElectLeaders (key 43), v0-v2. Preferred leaders (KIP-183). v1: unclean elections too (KIP-460)."""

from __future__ import annotations

from typing import Annotated

from tidelog.wire.schema import Message, Request, Response, int8, int16, int32, nullable, since, string


class PartitionResult(Message):
    partition_id: int32 = 0
    error_code: int16 = 0
    error_message: Annotated[string | None, nullable("0+")] = ""


class ReplicaElectionResult(Message):
    topic: string = ""
    partition_result: list[PartitionResult] = []


class ElectLeadersResponse(Response):
    VERSIONS = "0-2"
    FLEXIBLE = "2+"
    API_KEY = 43

    throttle_time_ms: int32 = 0
    error_code: Annotated[int16, since("1+")] = 0
    replica_election_results: list[ReplicaElectionResult] = []


class TopicPartitions(Message):
    topic: string = ""
    partitions: list[int32] = []


class ElectLeadersRequest(Request):
    VERSIONS = "0-2"
    FLEXIBLE = "2+"
    API_KEY = 43
    RESPONSE = ElectLeadersResponse

    election_type: Annotated[int8, since("1+")] = 0
    topic_partitions: Annotated[list[TopicPartitions] | None, nullable("0+")] = []
    timeout_ms: int32 = 60000
