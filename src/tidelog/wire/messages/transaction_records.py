"""Records of `__transaction_state` (KIP-98). v1 of the value: producer ids and epochs before and after (KIP-890)."""

from __future__ import annotations

from typing import Annotated

from tidelog.wire.schema import Message, ignorable, int8, int16, int32, int64, nullable, string, tag


class TransactionLogKey(Message):
    VERSIONS = "0"
    FLEXIBLE = "none"
    API_KEY = 0

    transactional_id: string = ""


class PartitionsSchema(Message):
    topic: string = ""
    partition_ids: list[int32] = []


class TransactionLogValue(Message):
    VERSIONS = "0-1"
    FLEXIBLE = "1+"
    API_KEY = 0

    producer_id: int64 = 0
    previous_producer_id: Annotated[int64, tag(0, "1+"), ignorable] = -1
    next_producer_id: Annotated[int64, tag(1, "1+"), ignorable] = -1
    producer_epoch: int16 = 0
    next_producer_epoch: Annotated[int16, tag(3, "1+"), ignorable] = -1
    transaction_timeout_ms: int32 = 0
    transaction_status: int8 = 0
    transaction_partitions: Annotated[list[PartitionsSchema] | None, nullable("0+")] = []
    transaction_last_update_timestamp_ms: int64 = 0
    transaction_start_timestamp_ms: int64 = 0
    client_transaction_version: Annotated[int16, tag(2, "1+"), ignorable] = 0
