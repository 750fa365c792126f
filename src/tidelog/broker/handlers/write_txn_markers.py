"""WriteTxnMarkers (key 27), v1-v2. From transaction coordinators on other brokers. v2: their version (KIP-1228)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tidelog.broker.call import Call
from tidelog.broker.transaction_markers import LocalMarkers, Marker, PartitionErrors
from tidelog.model.ids import PartitionIndex, ProducerEpoch, ProducerId, TopicName, TopicPartition
from tidelog.transactions.transaction import Producer
from tidelog.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

_Written: TypeAlias = Callable[[WritableTxnMarker, PartitionErrors], None]


class WriteTxnMarkersHandler:
    def __init__(self, markers: LocalMarkers) -> None:
        self._markers = markers

    def __call__(self, call: Call, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse | None:
        results: list[WritableTxnMarkerResult] = []

        def written(marker: WritableTxnMarker, errors: PartitionErrors) -> None:
            results.append(_result(marker, errors))
            if len(results) == len(request.markers):
                call.answer(WriteTxnMarkersResponse(results))

        if not request.markers:
            return WriteTxnMarkersResponse()
        for marker in request.markers:
            self._write(marker, written)
        return None

    def _write(self, asked: WritableTxnMarker, written: _Written) -> None:
        marker = Marker(
            Producer(ProducerId(asked.producer_id), ProducerEpoch(asked.producer_epoch)),
            asked.transaction_result,
            asked.coordinator_epoch,
            asked.transaction_version,
        )
        partitions = [
            TopicPartition(TopicName(topic.name), PartitionIndex(index))
            for topic in asked.topics
            for index in topic.partition_indexes
        ]
        if not partitions:
            written(asked, {})
            return
        self._markers.write(marker, partitions, lambda errors: written(asked, errors))


def _result(marker: WritableTxnMarker, errors: PartitionErrors) -> WritableTxnMarkerResult:
    topics: dict[str, WritableTxnMarkerTopicResult] = {}
    for (topic, index), error in errors.items():
        if topic not in topics:
            topics[topic] = WritableTxnMarkerTopicResult(topic, [])
        topics[topic].partitions.append(WritableTxnMarkerPartitionResult(index, error))
    return WritableTxnMarkerResult(marker.producer_id, list(topics.values()))
