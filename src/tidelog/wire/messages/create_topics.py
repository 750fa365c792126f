"""CreateTopics (key 19), v2-v7. v4: broker defaults for partitions and replication (KIP-464). v5: the configuration in
the answer (KIP-525). v6: may be throttled (KIP-599). v7: topic id in the answer (KIP-516)."""

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
    nullable,
    since,
    string,
    tag,
    uuid,
)


class CreatableTopicConfigs(Message):
    name: string = ""
    value: Annotated[string | None, nullable("5+")] = ""
    read_only: bool_ = False
    config_source: int8 = -1
    is_sensitive: bool_ = False


class CreatableTopicResult(Message):
    name: string = ""
    topic_id: Annotated[uuid, since("7+"), ignorable] = ZERO_UUID
    error_code: int16 = 0
    error_message: Annotated[string | None, nullable("0+")] = ""
    topic_config_error_code: Annotated[int16, tag(0, "5+"), ignorable] = 0
    num_partitions: Annotated[int32, since("5+"), ignorable] = -1
    replication_factor: Annotated[int16, since("5+"), ignorable] = -1
    configs: Annotated[list[CreatableTopicConfigs] | None, since("5+"), nullable("5+"), ignorable] = []


class CreateTopicsResponse(Response):
    VERSIONS = "2-7"
    FLEXIBLE = "5+"
    API_KEY = 19

    throttle_time_ms: int32 = 0
    topics: list[CreatableTopicResult] = []


class CreatableReplicaAssignment(Message):
    partition_index: int32 = 0
    broker_ids: list[int32] = []


class CreatableTopicConfig(Message):
    name: string = ""
    value: Annotated[string | None, nullable("0+")] = ""


class CreatableTopic(Message):
    name: string = ""
    num_partitions: int32 = 0
    replication_factor: int16 = 0
    assignments: list[CreatableReplicaAssignment] = []
    configs: list[CreatableTopicConfig] = []


class CreateTopicsRequest(Request):
    VERSIONS = "2-7"
    FLEXIBLE = "5+"
    API_KEY = 19
    RESPONSE = CreateTopicsResponse

    topics: list[CreatableTopic] = []
    timeout_ms: int32 = 60000
    validate_only: bool_ = False
