"""What transaction coordinators and leaders of partitions ask each other when they are on different brokers.

A coordinator has markers written by whoever leads a partition (WriteTxnMarkers); a leader has the coordinator add or
verify partitions before a transaction begins there (AddPartitionsToTxn, KIP-890). Answers say what a retry needs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, Protocol

from tidelog.broker.other_brokers import OtherBrokers
from tidelog.broker.peers import PeerFailed
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId, PartitionIndex, TopicName, TopicPartition
from tidelog.transactions.transaction import Producer
from tidelog.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from tidelog.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

MARKERS_PURPOSE: Final = "markers"
TRANSACTIONS_PURPOSE: Final = "transactions"

PartitionErrors = dict[TopicPartition, ErrorCode]


class Marker(Protocol):
    """The end of one transaction."""

    @property
    def producer(self) -> Producer: ...
    @property
    def committed(self) -> bool: ...
    @property
    def coordinator_epoch(self) -> int: ...
    @property
    def version(self) -> int: ...


class TransactionPeers:
    def __init__(self, brokers: OtherBrokers) -> None:
        self._brokers = brokers

    def write_markers(
        self,
        node: NodeId,
        marker: Marker,
        partitions: Collection[TopicPartition],
        answer: Callable[[PartitionErrors], None],
    ) -> None:
        """Have a marker written to partitions that a broker leads; an error code for each."""
        request = WriteTxnMarkersRequest(
            [
                WritableTxnMarker(
                    marker.producer.id,
                    marker.producer.epoch,
                    marker.committed,
                    [WritableTxnMarkerTopic(name, indexes) for name, indexes in _by_topic(partitions).items()],
                    marker.coordinator_epoch,
                    marker.version,
                )
            ]
        )

        def answered(response: WriteTxnMarkersResponse | PeerFailed) -> None:
            # A partition of which nothing is said is asked for again: a marker that comes twice does no harm.
            errors: PartitionErrors = dict.fromkeys(partitions, ErrorCode.NETWORK_EXCEPTION)
            if not isinstance(response, PeerFailed):
                for result in response.markers:
                    for topic in result.topics:
                        for told in topic.partitions:
                            errors[_partition(topic.name, told.partition_index)] = ErrorCode(told.error_code)
            answer(errors)

        self._brokers.send(node, MARKERS_PURPOSE, request, answered)

    def add_partitions(
        self,
        node: NodeId,
        transactional_id: str,
        producer: Producer,
        partitions: Collection[TopicPartition],
        answer: Callable[[PartitionErrors], None],
        *,
        verify_only: bool,
    ) -> None:
        """Have a coordinator add partitions to a transaction, or say whether they are in it; an error code for each."""
        asked = AddPartitionsToTxnTransaction(
            transactional_id,
            producer.id,
            producer.epoch,
            verify_only,
            [AddPartitionsToTxnTopic(name, indexes) for name, indexes in _by_topic(partitions).items()],
        )

        def answered(response: AddPartitionsToTxnResponse | PeerFailed) -> None:
            errors: PartitionErrors = dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            if not isinstance(response, PeerFailed):
                for result in response.results_by_transaction:
                    for topic in result.topic_results:
                        for told in topic.results_by_partition:
                            code = response.error_code or told.partition_error_code
                            errors[_partition(topic.name, told.partition_index)] = ErrorCode(code)
            answer(errors)

        self._brokers.send(node, TRANSACTIONS_PURPOSE, AddPartitionsToTxnRequest([asked]), answered)


def _by_topic(partitions: Collection[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    return topics


def _partition(topic: str, index: int) -> TopicPartition:
    return TopicPartition(TopicName(topic), PartitionIndex(index))
