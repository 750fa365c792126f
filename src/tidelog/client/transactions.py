"""The blocking client for transactions: list, describe, see the producers of partitions, find and end what hangs.

A transaction is asked for at its coordinator, which is looked up each time; producers of a partition at its leader.
Writing in transactions is not here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tidelog.client.admin import accepted
from tidelog.client.cluster import Cluster
from tidelog.client.core.groups import found_coordinator
from tidelog.client.core.metadata import Node
from tidelog.client.core.offsets import by_topic
from tidelog.client.deadline import Deadline
from tidelog.client.errors import Rejected, check, rejection
from tidelog.client.leaders import ask_leaders
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import (
    NodeId,
    Offset,
    PartitionIndex,
    ProducerEpoch,
    ProducerId,
    TopicName,
    TopicPartition,
)
from tidelog.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    ProducerState,
    TopicRequest,
)
from tidelog.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from tidelog.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

TRANSACTION_KEY: Final = 1
# From this version on, FindCoordinator takes several keys.
FIND_SEVERAL_VERSION: Final = 4
# Partitions that one DescribeProducers request asks about at most: a broker may have very many.
PARTITIONS_PER_REQUEST_MAX: Final = 500
# The time-out of a transaction that whoever takes an id over never begins.
TAKEOVER_TIMEOUT_MS: Final = 1
# Lower than that of any coordinator that has written a marker, for a producer that never saw one.
FIRST_COORDINATOR_EPOCH: Final = 0


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """A transactional id in a list."""

    transactional_id: str
    coordinator: NodeId
    producer_id: ProducerId
    state: str


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """Who has a transactional id, and what its open transaction writes to."""

    transactional_id: str
    coordinator: NodeId
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    state: str
    timeout_ms: int
    # None while none is open.
    start_ms: int | None
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class PartitionProducer:
    """A producer as a partition knows it."""

    producer_id: ProducerId
    epoch: int
    # -1 when no coordinator has written a marker yet.
    coordinator_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    # Where its open transaction begins; None when it has none here.
    transaction_start: Offset | None


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that is open in one partition."""

    partition: TopicPartition
    producer: PartitionProducer


class Transactions:
    """Asks a cluster about its transactions, and ends those that nobody else will."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        running_longer_than_ms: int | None = None,
        id_pattern: str | None = None,
    ) -> list[TransactionListing]:
        """The transactional ids of all brokers; all, or those that match everything that is given."""
        duration_ms = -1 if running_longer_than_ms is None else running_longer_than_ms
        request = ListTransactionsRequest(list(states), list(producer_ids), duration_ms, id_pattern)

        def ask(deadline: Deadline) -> list[TransactionListing]:
            found = []
            for node in self._cluster.refresh([], deadline).nodes.values():
                answer = self._cluster.call(node, request, ListTransactionsResponse, deadline)
                check(answer.error_code)
                found += [
                    TransactionListing(
                        each.transactional_id, node.id, ProducerId(each.producer_id), each.transaction_state
                    )
                    for each in answer.transaction_states
                ]
            return found

        return self._cluster.retry(ask)

    def describe(self, transactional_id: str) -> TransactionDescription:
        """One transactional id. Rejected with TRANSACTIONAL_ID_NOT_FOUND when there is none."""

        def ask(deadline: Deadline) -> TransactionDescription:
            node = self._coordinator(transactional_id, deadline)
            request = DescribeTransactionsRequest([transactional_id])
            (state,) = self._cluster.call(node, request, DescribeTransactionsResponse, deadline).transaction_states
            unknown = state.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
            check(state.error_code, f"There is no transactional id '{transactional_id}'." if unknown else None)
            return _description(node.id, state)

        return self._cluster.retry(ask)

    def terminate(self, transactional_id: str) -> None:
        """Take an id from whoever has it: an open transaction is aborted, also a prepared one, its producer fenced."""

        def ask(deadline: Deadline) -> None:
            node = self._coordinator(transactional_id, deadline)
            request = InitProducerIdRequest(transactional_id, TAKEOVER_TIMEOUT_MS)
            check(self._cluster.call(node, request, InitProducerIdResponse, deadline).error_code)

        self._cluster.retry(ask)

    def producers(
        self, partitions: Iterable[TopicPartition], *, broker: NodeId | None = None
    ) -> dict[TopicPartition, tuple[PartitionProducer, ...] | Rejected]:
        """The producers that partitions remember, as their leaders say, or as one broker says."""
        wanted = list(dict.fromkeys(partitions))
        found: dict[TopicPartition, tuple[PartitionProducer, ...] | Rejected] = {}
        for first in range(0, len(wanted), PARTITIONS_PER_REQUEST_MAX):
            part: Mapping[TopicPartition, None] = dict.fromkeys(wanted[first : first + PARTITIONS_PER_REQUEST_MAX])
            if broker is None:
                found |= ask_leaders(self._cluster, part, self._producers_at, self._cluster.deadline())
            else:
                deadline = self._cluster.deadline()
                found |= self._producers_at(self._cluster.node(broker, deadline), part, deadline)
        return found

    def open_at(self, partition: TopicPartition, start: Offset) -> PartitionProducer | None:
        """The producer whose open transaction begins at an offset."""
        producers = accepted(self.producers([partition])[partition])
        return next((each for each in producers if each.transaction_start == start), None)

    def abort(
        self, partition: TopicPartition, producer_id: ProducerId, producer_epoch: ProducerEpoch, coordinator_epoch: int
    ) -> None:
        """Abort a transaction in one partition behind its coordinator's back: only for one that hangs."""
        marker = WritableTxnMarker(
            producer_id,
            producer_epoch,
            False,
            [WritableTxnMarkerTopic(partition.topic, [partition.partition])],
            max(coordinator_epoch, FIRST_COORDINATOR_EPOCH),
        )

        def ask(deadline: Deadline) -> None:
            node = self._cluster.leader(partition, deadline)
            answer = self._cluster.call(node, WriteTxnMarkersRequest([marker]), WriteTxnMarkersResponse, deadline)
            (written,) = answer.markers[0].topics[0].partitions
            check(written.error_code)

        self._cluster.retry(ask)

    def find_hanging(
        self, partitions: Iterable[TopicPartition], silent_since_ms: int, *, broker: NodeId | None = None
    ) -> list[OpenTransaction]:
        """Transactions whose producers have been silent since then and that no coordinator knows any more."""
        open_ = [
            OpenTransaction(partition, producer)
            for partition, producers in self.producers(partitions, broker=broker).items()
            for producer in accepted(producers)
            if producer.transaction_start is not None and producer.last_timestamp_ms < silent_since_ms
        ]
        if not open_:
            return []
        wanted = {each.producer.producer_id for each in open_}
        ids = {each.producer_id: each.transactional_id for each in self.list_transactions(producer_ids=wanted)}
        known = {producer_id: self._partitions_of(ids[producer_id]) for producer_id in wanted & ids.keys()}
        return [each for each in open_ if each.partition not in known.get(each.producer.producer_id, ())]

    def _partitions_of(self, transactional_id: str) -> tuple[TopicPartition, ...]:
        try:
            return self.describe(transactional_id).partitions
        except Rejected as error:
            if error.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                raise
            return ()

    def _producers_at(
        self, node: Node, partitions: Mapping[TopicPartition, None], deadline: Deadline
    ) -> dict[TopicPartition, tuple[PartitionProducer, ...] | Rejected]:
        request = DescribeProducersRequest(
            [TopicRequest(name, [int(index) for index, _ in rows]) for name, rows in by_topic(partitions).items()]
        )
        answer = self._cluster.call(node, request, DescribeProducersResponse, deadline)
        return {
            TopicPartition(TopicName(topic.name), PartitionIndex(partition.partition_index)): rejection(
                partition.error_code, partition.error_message
            )
            or tuple(_producer(state) for state in partition.active_producers)
            for topic in answer.topics
            for partition in topic.partitions
        }

    def _coordinator(self, transactional_id: str, deadline: Deadline) -> Node:
        connection = self._cluster.any_connection(deadline)
        if connection.version_of(FindCoordinatorRequest) < FIND_SEVERAL_VERSION:
            request = FindCoordinatorRequest(transactional_id, TRANSACTION_KEY)
        else:
            request = FindCoordinatorRequest(key_type=TRANSACTION_KEY, coordinator_keys=[transactional_id])
        return accepted(found_coordinator(connection.call(request, FindCoordinatorResponse, deadline)))


def _description(coordinator: NodeId, state: TransactionState) -> TransactionDescription:
    return TransactionDescription(
        state.transactional_id,
        coordinator,
        ProducerId(state.producer_id),
        ProducerEpoch(state.producer_epoch),
        state.transaction_state,
        state.transaction_timeout_ms,
        state.transaction_start_time_ms if state.transaction_start_time_ms >= 0 else None,
        tuple(
            TopicPartition(TopicName(topic.topic), PartitionIndex(index))
            for topic in state.topics
            for index in topic.partitions
        ),
    )


def _producer(state: ProducerState) -> PartitionProducer:
    start = state.current_txn_start_offset
    return PartitionProducer(
        ProducerId(state.producer_id),
        state.producer_epoch,
        state.coordinator_epoch,
        state.last_sequence,
        state.last_timestamp,
        Offset(start) if start >= 0 else None,
    )
