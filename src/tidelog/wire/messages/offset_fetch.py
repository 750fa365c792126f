"""OffsetFetch (key 9), v1-v10. v2: null asks for all topics. v5: leader epoch (KIP-320). v7: only stable offsets
(KIP-447). v8: several groups (KIP-709). v9: member epoch (KIP-848). v10: topic ids (KIP-516)."""

from __future__ import annotations

from typing import Annotated

from tidelog.model.ids import ZERO_UUID
from tidelog.wire.schema import (
    Message,
    Request,
    Response,
    bool_,
    ignorable,
    int16,
    int32,
    int64,
    nullable,
    since,
    string,
    uuid,
)


class OffsetFetchResponsePartition(Message):
    partition_index: int32 = 0
    committed_offset: int64 = 0
    committed_leader_epoch: Annotated[int32, since("5-7"), ignorable] = -1
    metadata: Annotated[string | None, nullable("0-7")] = ""
    error_code: int16 = 0


class OffsetFetchResponseTopic(Message):
    name: string = ""
    partitions: list[OffsetFetchResponsePartition] = []


class OffsetFetchResponsePartitions(Message):
    partition_index: int32 = 0
    committed_offset: int64 = 0
    committed_leader_epoch: int32 = -1
    metadata: Annotated[string | None, nullable("8+")] = ""
    error_code: int16 = 0


class OffsetFetchResponseTopics(Message):
    name: Annotated[string, since("8-9"), ignorable] = ""
    topic_id: Annotated[uuid, since("10+"), ignorable] = ZERO_UUID
    partitions: list[OffsetFetchResponsePartitions] = []


class OffsetFetchResponseGroup(Message):
    group_id: string = ""
    topics: list[OffsetFetchResponseTopics] = []
    error_code: int16 = 0


class OffsetFetchResponse(Response):
    VERSIONS = "1-10"
    FLEXIBLE = "6+"
    API_KEY = 9

    throttle_time_ms: Annotated[int32, since("3+"), ignorable] = 0
    topics: Annotated[list[OffsetFetchResponseTopic], since("0-7")] = []
    error_code: Annotated[int16, since("2-7"), ignorable] = 0
    groups: Annotated[list[OffsetFetchResponseGroup], since("8+")] = []


class OffsetFetchRequestTopic(Message):
    name: string = ""
    partition_indexes: list[int32] = []


class OffsetFetchRequestTopics(Message):
    name: Annotated[string, since("8-9"), ignorable] = ""
    topic_id: Annotated[uuid, since("10+"), ignorable] = ZERO_UUID
    partition_indexes: list[int32] = []


class OffsetFetchRequestGroup(Message):
    group_id: string = ""
    member_id: Annotated[string | None, since("9+"), nullable("9+"), ignorable] = None
    member_epoch: Annotated[int32, since("9+"), ignorable] = -1
    topics: Annotated[list[OffsetFetchRequestTopics] | None, nullable("8+")] = []


class OffsetFetchRequest(Request):
    VERSIONS = "1-10"
    FLEXIBLE = "6+"
    API_KEY = 9
    RESPONSE = OffsetFetchResponse

    group_id: Annotated[string, since("0-7")] = ""
    topics: Annotated[list[OffsetFetchRequestTopic] | None, since("0-7"), nullable("2-7")] = []
    groups: Annotated[list[OffsetFetchRequestGroup], since("8+")] = []
    require_stable: Annotated[bool_, since("7+")] = False
