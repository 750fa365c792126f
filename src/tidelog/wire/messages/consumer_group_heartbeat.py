"""ConsumerGroupHeartbeat (key 68), v0-v1. The consumer group protocol with assignment on the broker (KIP-848).
v1: subscription by regular expression; the client makes its member id (KIP-1082)."""

from __future__ import annotations

from typing import Annotated

from tidelog.model.ids import ZERO_UUID
from tidelog.wire.schema import Message, Request, Response, int16, int32, nullable, since, string, uuid


class TopicPartitions(Message):
    topic_id: uuid = ZERO_UUID
    partitions: list[int32] = []


class Assignment(Message):
    topic_partitions: list[TopicPartitions] = []


class ConsumerGroupHeartbeatResponse(Response):
    VERSIONS = "0-1"
    FLEXIBLE = "0+"
    API_KEY = 68

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: Annotated[string | None, nullable("0+")] = None
    member_id: Annotated[string | None, nullable("0+")] = None
    member_epoch: int32 = 0
    heartbeat_interval_ms: int32 = 0
    assignment: Annotated[Assignment | None, nullable("0+")] = None


class ConsumerGroupHeartbeatRequest(Request):
    VERSIONS = "0-1"
    FLEXIBLE = "0+"
    API_KEY = 68
    RESPONSE = ConsumerGroupHeartbeatResponse

    group_id: string = ""
    member_id: string = ""
    member_epoch: int32 = 0
    instance_id: Annotated[string | None, nullable("0+")] = None
    rack_id: Annotated[string | None, nullable("0+")] = None
    rebalance_timeout_ms: int32 = -1
    subscribed_topic_names: Annotated[list[string] | None, nullable("0+")] = None
    subscribed_topic_regex: Annotated[string | None, since("1+"), nullable("1+")] = None
    server_assignor: Annotated[string | None, nullable("0+")] = None
    topic_partitions: Annotated[list[TopicPartitions] | None, nullable("0+")] = None
