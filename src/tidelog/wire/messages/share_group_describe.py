"""ShareGroupDescribe (key 77), v1, KIP-932."""

from __future__ import annotations

from typing import Annotated

from msgspec import field

from tidelog.model.ids import ZERO_UUID
from tidelog.wire.schema import Message, Request, Response, bool_, int16, int32, nullable, string, uuid


class TopicPartitions(Message):
    topic_id: uuid = ZERO_UUID
    topic_name: string = ""
    partitions: list[int32] = []


class Assignment(Message):
    topic_partitions: list[TopicPartitions] = []


class Member(Message):
    member_id: string = ""
    rack_id: Annotated[string | None, nullable("0+")] = None
    member_epoch: int32 = 0
    client_id: string = ""
    client_host: string = ""
    subscribed_topic_names: list[string] = []
    assignment: Assignment = field(default_factory=Assignment)


class DescribedGroup(Message):
    error_code: int16 = 0
    error_message: Annotated[string | None, nullable("0+")] = None
    group_id: string = ""
    group_state: string = ""
    group_epoch: int32 = 0
    assignment_epoch: int32 = 0
    assignor_name: string = ""
    members: list[Member] = []
    authorized_operations: int32 = -2147483648


class ShareGroupDescribeResponse(Response):
    VERSIONS = "1"
    FLEXIBLE = "0+"
    API_KEY = 77

    throttle_time_ms: int32 = 0
    groups: list[DescribedGroup] = []


class ShareGroupDescribeRequest(Request):
    VERSIONS = "1"
    FLEXIBLE = "0+"
    API_KEY = 77
    RESPONSE = ShareGroupDescribeResponse

    group_ids: list[string] = []
    include_authorized_operations: bool_ = False
