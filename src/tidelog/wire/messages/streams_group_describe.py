"""StreamsGroupDescribe (key 89), v0, KIP-1071."""

from __future__ import annotations

from typing import Annotated

from msgspec import field

from tidelog.wire.schema import Message, Request, Response, bool_, int16, int32, int64, nullable, string, uint16


class KeyValue(Message):
    key: string = ""
    value: string = ""


class TopicInfo(Message):
    name: string = ""
    partitions: int32 = 0
    replication_factor: int16 = 0
    topic_configs: list[KeyValue] = []


class Subtopology(Message):
    subtopology_id: string = ""
    source_topics: list[string] = []
    repartition_sink_topics: list[string] = []
    state_changelog_topics: list[TopicInfo] = []
    repartition_source_topics: list[TopicInfo] = []


class Topology(Message):
    epoch: int32 = 0
    subtopologies: Annotated[list[Subtopology] | None, nullable("0+")] = None


class Endpoint(Message):
    host: string = ""
    port: uint16 = 0


class TaskOffset(Message):
    subtopology_id: string = ""
    partition: int32 = 0
    offset: int64 = 0


class TaskIds(Message):
    subtopology_id: string = ""
    partitions: list[int32] = []


class Assignment(Message):
    active_tasks: list[TaskIds] = []
    standby_tasks: list[TaskIds] = []
    warmup_tasks: list[TaskIds] = []


class Member(Message):
    member_id: string = ""
    member_epoch: int32 = 0
    instance_id: Annotated[string | None, nullable("0+")] = None
    rack_id: Annotated[string | None, nullable("0+")] = None
    client_id: string = ""
    client_host: string = ""
    topology_epoch: int32 = 0
    process_id: string = ""
    user_endpoint: Annotated[Endpoint | None, nullable("0+")] = None
    client_tags: list[KeyValue] = []
    task_offsets: list[TaskOffset] = []
    task_end_offsets: list[TaskOffset] = []
    assignment: Assignment = field(default_factory=Assignment)
    target_assignment: Assignment = field(default_factory=Assignment)
    is_classic: bool_ = False


class DescribedGroup(Message):
    error_code: int16 = 0
    error_message: Annotated[string | None, nullable("0+")] = None
    group_id: string = ""
    group_state: string = ""
    group_epoch: int32 = 0
    assignment_epoch: int32 = 0
    topology: Annotated[Topology | None, nullable("0+")] = None
    members: list[Member] = []
    authorized_operations: int32 = -2147483648


class StreamsGroupDescribeResponse(Response):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 89

    throttle_time_ms: int32 = 0
    groups: list[DescribedGroup] = []


class StreamsGroupDescribeRequest(Request):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 89
    RESPONSE = StreamsGroupDescribeResponse

    group_ids: list[string] = []
    include_authorized_operations: bool_ = False
