"""AlterPartitionReassignments (key 45), v0-v1, KIP-455. v1: may insist on the replication factor (KIP-860)."""

from __future__ import annotations

from typing import Annotated

from tidelog.wire.schema import Message, Request, Response, bool_, ignorable, int16, int32, nullable, since, string


class ReassignablePartitionResponse(Message):
    partition_index: int32 = 0
    error_code: int16 = 0
    error_message: Annotated[string | None, nullable("0+")] = ""


class ReassignableTopicResponse(Message):
    name: string = ""
    partitions: list[ReassignablePartitionResponse] = []


class AlterPartitionReassignmentsResponse(Response):
    VERSIONS = "0-1"
    FLEXIBLE = "0+"
    API_KEY = 45

    throttle_time_ms: int32 = 0
    allow_replication_factor_change: Annotated[bool_, since("1+"), ignorable] = True
    error_code: int16 = 0
    error_message: Annotated[string | None, nullable("0+")] = ""
    responses: list[ReassignableTopicResponse] = []


class ReassignablePartition(Message):
    partition_index: int32 = 0
    replicas: Annotated[list[int32] | None, nullable("0+")] = None


class ReassignableTopic(Message):
    name: string = ""
    partitions: list[ReassignablePartition] = []


class AlterPartitionReassignmentsRequest(Request):
    VERSIONS = "0-1"
    FLEXIBLE = "0+"
    API_KEY = 45
    RESPONSE = AlterPartitionReassignmentsResponse

    timeout_ms: int32 = 60000
    allow_replication_factor_change: Annotated[bool_, since("1+")] = True
    topics: list[ReassignableTopic] = []
