"""OffsetCommit (key 8), v2-v10. v2-v4: retention time of the client. v6: leader epoch (KIP-320). v7: static members
(KIP-345). v9: member epoch of the new group protocol (KIP-848). v10: topic ids (KIP-516)."""

from __future__ import annotations

from typing import Annotated

from tidelog.model.ids import ZERO_UUID
from tidelog.wire.schema import (
    Message,
    Request,
    Response,
    ignorable,
    int16,
    int32,
    int64,
    nullable,
    since,
    string,
    uuid,
)


class OffsetCommitResponsePartition(Message):
    partition_index: int32 = 0
    error_code: int16 = 0


class OffsetCommitResponseTopic(Message):
    name: Annotated[string, since("0-9"), ignorable] = ""
    topic_id: Annotated[uuid, since("10+"), ignorable] = ZERO_UUID
    partitions: list[OffsetCommitResponsePartition] = []


class OffsetCommitResponse(Response):
    VERSIONS = "2-10"
    FLEXIBLE = "8+"
    API_KEY = 8

    throttle_time_ms: Annotated[int32, since("3+"), ignorable] = 0
    topics: list[OffsetCommitResponseTopic] = []


class OffsetCommitRequestPartition(Message):
    partition_index: int32 = 0
    committed_offset: int64 = 0
    committed_leader_epoch: Annotated[int32, since("6+"), ignorable] = -1
    committed_metadata: Annotated[string | None, nullable("0+")] = ""


class OffsetCommitRequestTopic(Message):
    name: Annotated[string, since("0-9"), ignorable] = ""
    topic_id: Annotated[uuid, since("10+"), ignorable] = ZERO_UUID
    partitions: list[OffsetCommitRequestPartition] = []


class OffsetCommitRequest(Request):
    VERSIONS = "2-10"
    FLEXIBLE = "8+"
    API_KEY = 8
    RESPONSE = OffsetCommitResponse

    group_id: string = ""
    generation_id_or_member_epoch: int32 = -1
    member_id: string = ""
    group_instance_id: Annotated[string | None, since("7+"), nullable("7+")] = None
    retention_time_ms: Annotated[int64, since("2-4"), ignorable] = -1
    topics: list[OffsetCommitRequestTopic] = []
