"""WriteTxnMarkers (key 27), v1-v2. From the transaction coordinator to partition leaders (KIP-98). v2: transaction
version (KIP-1228)."""

from __future__ import annotations

from typing import Annotated

from tidelog.wire.schema import Message, Request, Response, bool_, ignorable, int8, int16, int32, int64, since, string


class WritableTxnMarkerPartitionResult(Message):
    partition_index: int32 = 0
    error_code: int16 = 0


class WritableTxnMarkerTopicResult(Message):
    name: string = ""
    partitions: list[WritableTxnMarkerPartitionResult] = []


class WritableTxnMarkerResult(Message):
    producer_id: int64 = 0
    topics: list[WritableTxnMarkerTopicResult] = []


class WriteTxnMarkersResponse(Response):
    VERSIONS = "1-2"
    FLEXIBLE = "1+"
    API_KEY = 27

    markers: list[WritableTxnMarkerResult] = []


class WritableTxnMarkerTopic(Message):
    name: string = ""
    partition_indexes: list[int32] = []


class WritableTxnMarker(Message):
    producer_id: int64 = 0
    producer_epoch: int16 = 0
    transaction_result: bool_ = False
    topics: list[WritableTxnMarkerTopic] = []
    coordinator_epoch: int32 = 0
    transaction_version: Annotated[int8, since("2+"), ignorable] = 0


class WriteTxnMarkersRequest(Request):
    VERSIONS = "1-2"
    FLEXIBLE = "1+"
    API_KEY = 27
    RESPONSE = WriteTxnMarkersResponse

    markers: list[WritableTxnMarker] = []
