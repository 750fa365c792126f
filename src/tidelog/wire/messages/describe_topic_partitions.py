"""DescribeTopicPartitions (key 75), v0. Pages through topics, with eligible leader replicas (KIP-966)."""

from __future__ import annotations

from typing import Annotated

from tidelog.model.ids import ZERO_UUID
from tidelog.wire.schema import Message, Request, Response, bool_, int16, int32, nullable, string, uuid


class DescribeTopicPartitionsResponsePartition(Message):
    error_code: int16 = 0
    partition_index: int32 = 0
    leader_id: int32 = 0
    leader_epoch: int32 = -1
    replica_nodes: list[int32] = []
    isr_nodes: list[int32] = []
    eligible_leader_replicas: Annotated[list[int32] | None, nullable("0+")] = None
    last_known_elr: Annotated[list[int32] | None, nullable("0+")] = None
    offline_replicas: list[int32] = []


class DescribeTopicPartitionsResponseTopic(Message):
    error_code: int16 = 0
    name: Annotated[string | None, nullable("0+")] = ""
    topic_id: uuid = ZERO_UUID
    is_internal: bool_ = False
    partitions: list[DescribeTopicPartitionsResponsePartition] = []
    topic_authorized_operations: int32 = -2147483648


class Cursor(Message):
    topic_name: string = ""
    partition_index: int32 = 0


class DescribeTopicPartitionsResponse(Response):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 75

    throttle_time_ms: int32 = 0
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    next_cursor: Annotated[Cursor | None, nullable("0+")] = None


class TopicRequest(Message):
    name: string = ""


class DescribeTopicPartitionsRequest(Request):
    VERSIONS = "0"
    FLEXIBLE = "0+"
    API_KEY = 75
    RESPONSE = DescribeTopicPartitionsResponse

    topics: list[TopicRequest] = []
    response_partition_limit: int32 = 2000
    cursor: Annotated[Cursor | None, nullable("0+")] = None
