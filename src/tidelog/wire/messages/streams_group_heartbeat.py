"""StreamsGroupHeartbeat (key 88), v0, KIP-1071."""

from __future__ import annotations

from typing import Annotated

from msgspec import field

from tidelog.wire.schema import Message, Request, Response, bool_, int8, int16, int32, int64, nullable, string, uint16


class Status(Message):
    status_code: int8 = 0
    status_detail: string = ""


class TaskIds(Message):
    subtopology_id: string = ""
    partitions: list[int32] = []


class Endpoint(Message):
    host: string = ""
    port: uint16 = 0


class TopicPartition(Message):
    topic: string = ""
    partitions: list[int32] = []


class EndpointToPartitions(Message):
    user_endpoint: Endpoint = field(default_factory=Endpoint)
    active_partitions: list[TopicPartition] = []
    standby_partitions: list[TopicPartition] = []


class StreamsGroupHeartbeatResponse(Response):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 88

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: Annotated[string | None, nullable("0+")] = None
    member_id: string = ""
    member_epoch: int32 = 0
    heartbeat_interval_ms: int32 = 0
    acceptable_recovery_lag: int32 = 0
    task_offset_interval_ms: int32 = 0
    status: Annotated[list[Status] | None, nullable("0+")] = []
    active_tasks: Annotated[list[TaskIds] | None, nullable("0+")] = None
    standby_tasks: Annotated[list[TaskIds] | None, nullable("0+")] = None
    warmup_tasks: Annotated[list[TaskIds] | None, nullable("0+")] = None
    endpoint_information_epoch: int32 = 0
    partitions_by_user_endpoint: Annotated[list[EndpointToPartitions] | None, nullable("0+")] = None


class KeyValue(Message):
    key: string = ""
    value: string = ""


class TopicInfo(Message):
    name: string = ""
    partitions: int32 = 0
    replication_factor: int16 = 0
    topic_configs: list[KeyValue] = []


class CopartitionGroup(Message):
    source_topics: list[int16] = []
    source_topic_regex: list[int16] = []
    repartition_source_topics: list[int16] = []


class Subtopology(Message):
    subtopology_id: string = ""
    source_topics: list[string] = []
    source_topic_regex: list[string] = []
    state_changelog_topics: list[TopicInfo] = []
    repartition_sink_topics: list[string] = []
    repartition_source_topics: list[TopicInfo] = []
    copartition_groups: list[CopartitionGroup] = []


class Topology(Message):
    epoch: int32 = 0
    subtopologies: list[Subtopology] = []


class TaskOffset(Message):
    subtopology_id: string = ""
    partition: int32 = 0
    offset: int64 = 0


class StreamsGroupHeartbeatRequest(Request):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 88
    RESPONSE = StreamsGroupHeartbeatResponse

    group_id: string = ""
    member_id: string = ""
    member_epoch: int32 = 0
    endpoint_information_epoch: int32 = 0
    instance_id: Annotated[string | None, nullable("0+")] = None
    rack_id: Annotated[string | None, nullable("0+")] = None
    rebalance_timeout_ms: int32 = -1
    topology: Annotated[Topology | None, nullable("0+")] = None
    active_tasks: Annotated[list[TaskIds] | None, nullable("0+")] = None
    standby_tasks: Annotated[list[TaskIds] | None, nullable("0+")] = None
    warmup_tasks: Annotated[list[TaskIds] | None, nullable("0+")] = None
    process_id: Annotated[string | None, nullable("0+")] = None
    user_endpoint: Annotated[Endpoint | None, nullable("0+")] = None
    client_tags: Annotated[list[KeyValue] | None, nullable("0+")] = None
    task_offsets: Annotated[list[TaskOffset] | None, nullable("0+")] = None
    task_end_offsets: Annotated[list[TaskOffset] | None, nullable("0+")] = None
    shutdown_application: bool_ = False
