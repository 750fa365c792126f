"""Records of `__consumer_offsets` for streams groups (KIP-1071). `API_KEY` is the record's type, written as 16 bits
before the key."""

from __future__ import annotations

from typing import Annotated

from tidelog.wire.schema import Message, int8, int16, int32, int64, nullable, string, tag, uint16


class StreamsGroupMetadataKey(Message):
    VERSIONS = "0"
    FLEXIBLE = "none"
    API_KEY = 17

    group_id: string = ""


class LastAssignmentConfig(Message):
    key: string = ""
    value: string = ""


class StreamsGroupMetadataValue(Message):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 17

    epoch: int32 = 0
    metadata_hash: int64 = 0
    validated_topology_epoch: Annotated[int32, tag(0, "0+")] = -1
    last_assignment_configs: Annotated[list[LastAssignmentConfig] | None, tag(1, "0+"), nullable("0+")] = []


class StreamsGroupMemberMetadataKey(Message):
    VERSIONS = "0"
    FLEXIBLE = "none"
    API_KEY = 19

    group_id: string = ""
    member_id: string = ""


class Endpoint(Message):
    host: string = ""
    port: uint16 = 0


class KeyValue(Message):
    key: string = ""
    value: string = ""


class StreamsGroupMemberMetadataValue(Message):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 19

    instance_id: Annotated[string | None, nullable("0+")] = ""
    rack_id: Annotated[string | None, nullable("0+")] = ""
    client_id: string = ""
    client_host: string = ""
    rebalance_timeout_ms: int32 = -1
    topology_epoch: int32 = 0
    process_id: string = ""
    user_endpoint: Annotated[Endpoint | None, nullable("0+")] = None
    client_tags: list[KeyValue] = []


class StreamsGroupTargetAssignmentMetadataKey(Message):
    VERSIONS = "0"
    FLEXIBLE = "none"
    API_KEY = 20

    group_id: string = ""


class StreamsGroupTargetAssignmentMetadataValue(Message):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 20

    assignment_epoch: int32 = 0


class StreamsGroupTargetAssignmentMemberKey(Message):
    VERSIONS = "0"
    FLEXIBLE = "none"
    API_KEY = 21

    group_id: string = ""
    member_id: string = ""


class TargetTaskIds(Message):
    subtopology_id: string = ""
    partitions: list[int32] = []


class StreamsGroupTargetAssignmentMemberValue(Message):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 21

    active_tasks: list[TargetTaskIds] = []
    standby_tasks: list[TargetTaskIds] = []
    warmup_tasks: list[TargetTaskIds] = []


class StreamsGroupCurrentMemberAssignmentKey(Message):
    VERSIONS = "0"
    FLEXIBLE = "none"
    API_KEY = 22

    group_id: string = ""
    member_id: string = ""


class CurrentTaskIds(Message):
    subtopology_id: string = ""
    partitions: list[int32] = []
    assignment_epochs: Annotated[list[int32] | None, tag(0, "0+"), nullable("0+")] = []


class StreamsGroupCurrentMemberAssignmentValue(Message):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 22

    member_epoch: int32 = 0
    previous_member_epoch: int32 = 0
    state: int8 = 0
    active_tasks: list[CurrentTaskIds] = []
    standby_tasks: list[CurrentTaskIds] = []
    warmup_tasks: list[CurrentTaskIds] = []
    active_tasks_pending_revocation: list[CurrentTaskIds] = []
    standby_tasks_pending_revocation: list[CurrentTaskIds] = []
    warmup_tasks_pending_revocation: list[CurrentTaskIds] = []


class StreamsGroupTopologyKey(Message):
    VERSIONS = "0"
    FLEXIBLE = "none"
    API_KEY = 23

    group_id: string = ""


class TopicConfig(Message):
    key: string = ""
    value: string = ""


class TopicInfo(Message):
    name: string = ""
    partitions: int32 = 0
    replication_factor: int16 = 0
    topic_configs: list[TopicConfig] = []


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


class StreamsGroupTopologyValue(Message):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 23

    epoch: int32 = 0
    subtopologies: list[Subtopology] = []
