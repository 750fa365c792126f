"""TxnOffsetCommit (key 28), v0-v5. v2: leader epoch (KIP-320). v3: group membership fences zombies (KIP-447). v5: joins
the transaction by itself (KIP-890)."""

from __future__ import annotations

from typing import Annotated

from tidelog.wire.schema import Message, Request, Response, ignorable, int16, int32, int64, nullable, since, string


class TxnOffsetCommitResponsePartition(Message):
    partition_index: int32 = 0
    error_code: int16 = 0


class TxnOffsetCommitResponseTopic(Message):
    name: string = ""
    partitions: list[TxnOffsetCommitResponsePartition] = []


class TxnOffsetCommitResponse(Response):
    VERSIONS = "0-5"
    FLEXIBLE = "3+"
    API_KEY = 28

    throttle_time_ms: int32 = 0
    topics: list[TxnOffsetCommitResponseTopic] = []


class TxnOffsetCommitRequestPartition(Message):
    partition_index: int32 = 0
    committed_offset: int64 = 0
    committed_leader_epoch: Annotated[int32, since("2+"), ignorable] = -1
    committed_metadata: Annotated[string | None, nullable("0+")] = ""


class TxnOffsetCommitRequestTopic(Message):
    name: string = ""
    partitions: list[TxnOffsetCommitRequestPartition] = []


class TxnOffsetCommitRequest(Request):
    VERSIONS = "0-5"
    FLEXIBLE = "3+"
    API_KEY = 28
    RESPONSE = TxnOffsetCommitResponse

    transactional_id: string = ""
    group_id: string = ""
    producer_id: int64 = 0
    producer_epoch: int16 = 0
    generation_id: Annotated[int32, since("3+")] = -1
    member_id: Annotated[string, since("3+")] = ""
    group_instance_id: Annotated[string | None, since("3+"), nullable("3+")] = None
    topics: list[TxnOffsetCommitRequestTopic] = []
