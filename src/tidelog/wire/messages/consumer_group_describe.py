"""ConsumerGroupDescribe (key 69), v0-v1, KIP-848. v1: kind of member (KIP-1099)."""

from __future__ import annotations

from typing import Annotated

from msgspec import field

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
    uuid,
)


class TopicPartitions(Message):
    topic_id: uuid = ZERO_UUID
    topic_name: string = ""
    partitions: list[int32] = []


class Assignment(Message):
    topic_partitions: list[TopicPartitions] = []


class Member(Message):
    member_id: string = ""
    instance_id: Annotated[string | None, nullable("0+")] = None
    rack_id: Annotated[string | None, nullable("0+")] = None
    member_epoch: int32 = 0
    client_id: string = ""
    client_host: string = ""
    subscribed_topic_names: list[string] = []
    subscribed_topic_regex: Annotated[string | None, nullable("0+")] = None
    assignment: Assignment = field(default_factory=Assignment)
    target_assignment: Assignment = field(default_factory=Assignment)
    member_type: Annotated[int8, since("1+"), ignorable] = -1


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


class ConsumerGroupDescribeResponse(Response):
    VERSIONS = "0-1"
    FLEXIBLE = "0+"
    API_KEY = 69

    throttle_time_ms: int32 = 0
    groups: list[DescribedGroup] = []


class ConsumerGroupDescribeRequest(Request):
    VERSIONS = "0-1"
    FLEXIBLE = "0+"
    API_KEY = 69
    RESPONSE = ConsumerGroupDescribeResponse

    group_ids: list[string] = []
    include_authorized_operations: bool_ = False
