"""ShareGroupHeartbeat (key 76), v1, KIP-932."""

from __future__ import annotations

from typing import Annotated

from tidelog.model.ids import ZERO_UUID
from tidelog.wire.schema import Message, Request, Response, int16, int32, nullable, string, uuid


class TopicPartitions(Message):
    topic_id: uuid = ZERO_UUID
    partitions: list[int32] = []


class Assignment(Message):
    topic_partitions: list[TopicPartitions] = []


class ShareGroupHeartbeatResponse(Response):
    VERSIONS = "1"
    FLEXIBLE = "0+"
    API_KEY = 76

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: Annotated[string | None, nullable("0+")] = None
    member_id: Annotated[string | None, nullable("0+")] = None
    member_epoch: int32 = 0
    heartbeat_interval_ms: int32 = 0
    assignment: Annotated[Assignment | None, nullable("0+")] = None


class ShareGroupHeartbeatRequest(Request):
    VERSIONS = "1"
    FLEXIBLE = "0+"
    API_KEY = 76
    RESPONSE = ShareGroupHeartbeatResponse

    group_id: string = ""
    member_id: string = ""
    member_epoch: int32 = 0
    rack_id: Annotated[string | None, nullable("0+")] = None
    subscribed_topic_names: Annotated[list[string] | None, nullable("0+")] = None
