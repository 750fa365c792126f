"""ControlledShutdown (key 7), v0-v3. ZooKeeper mode only. v2: broker epoch (KIP-380)."""

from __future__ import annotations

from typing import Annotated

from tidelog.wire.schema import Message, Request, Response, ignorable, int16, int32, int64, since, string


class RemainingPartition(Message):
    topic_name: string = ""
    partition_index: int32 = 0


class ControlledShutdownResponse(Response):
    VERSIONS = "0-3"
    FLEXIBLE = "3+"
    API_KEY = 7

    error_code: int16 = 0
    remaining_partitions: list[RemainingPartition] = []


class ControlledShutdownRequest(Request):
    VERSIONS = "0-3"
    FLEXIBLE = "3+"
    API_KEY = 7
    RESPONSE = ControlledShutdownResponse

    broker_id: int32 = 0
    broker_epoch: Annotated[int64, since("2+"), ignorable] = -1
