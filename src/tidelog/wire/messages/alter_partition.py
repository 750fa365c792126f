"""AlterPartition (key 56), v2-v3. A partition leader asks the controller to change the ISR (KIP-497). v2: topic ids
(KIP-841). v3: broker epochs of the new ISR (KIP-903)."""

from __future__ import annotations

from typing import Annotated

from tidelog.model.ids import ZERO_UUID
from tidelog.wire.schema import Message, Request, Response, int8, int16, int32, int64, since, uuid


class AlterPartitionResponsePartitionData(Message):
    partition_index: int32 = 0
    error_code: int16 = 0
    leader_id: int32 = 0
    leader_epoch: int32 = 0
    isr: list[int32] = []
    leader_recovery_state: int8 = 0
    partition_epoch: int32 = 0


class AlterPartitionResponseTopicData(Message):
    topic_id: uuid = ZERO_UUID
    partitions: list[AlterPartitionResponsePartitionData] = []


class AlterPartitionResponse(Response):
    VERSIONS = "2-3"
    FLEXIBLE = "0+"
    API_KEY = 56

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    topics: list[AlterPartitionResponseTopicData] = []


class BrokerState(Message):
    broker_id: int32 = 0
    broker_epoch: int64 = -1


class AlterPartitionRequestPartitionData(Message):
    partition_index: int32 = 0
    leader_epoch: int32 = 0
    new_isr: Annotated[list[int32], since("0-2")] = []
    new_isr_with_epochs: Annotated[list[BrokerState], since("3+")] = []
    leader_recovery_state: int8 = 0
    partition_epoch: int32 = 0


class AlterPartitionRequestTopicData(Message):
    topic_id: uuid = ZERO_UUID
    partitions: list[AlterPartitionRequestPartitionData] = []


class AlterPartitionRequest(Request):
    VERSIONS = "2-3"
    FLEXIBLE = "0+"
    API_KEY = 56
    RESPONSE = AlterPartitionResponse

    broker_id: int32 = 0
    broker_epoch: int64 = -1
    topics: list[AlterPartitionRequestTopicData] = []
