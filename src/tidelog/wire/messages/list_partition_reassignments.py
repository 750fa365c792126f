"""ListPartitionReassignments (key 46), v0, KIP-455."""

from __future__ import annotations

from typing import Annotated

from tidelog.wire.schema import Message, Request, Response, int16, int32, nullable, string


class OngoingPartitionReassignment(Message):
    partition_index: int32 = 0
    replicas: list[int32] = []
    adding_replicas: list[int32] = []
    removing_replicas: list[int32] = []


class OngoingTopicReassignment(Message):
    name: string = ""
    partitions: list[OngoingPartitionReassignment] = []


class ListPartitionReassignmentsResponse(Response):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 46

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: Annotated[string | None, nullable("0+")] = ""
    topics: list[OngoingTopicReassignment] = []


class ListPartitionReassignmentsTopics(Message):
    name: string = ""
    partition_indexes: list[int32] = []


class ListPartitionReassignmentsRequest(Request):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 46
    RESPONSE = ListPartitionReassignmentsResponse

    timeout_ms: int32 = 60000
    topics: Annotated[list[ListPartitionReassignmentsTopics] | None, nullable("0+")] = None
