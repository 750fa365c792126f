"""AddPartitionsToTxn (key 24), v0-v5. v2: PRODUCER_FENCED (KIP-588). v4: several transactions, from brokers, also only
to verify (KIP-890).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from tidelog.broker.call import Call
from tidelog.broker.transaction_coordinator import TransactionCoordinator
from tidelog.broker.transaction_errors import error_code
from tidelog.metadata.image import ClusterImage
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import PartitionIndex, ProducerEpoch, ProducerId, TopicName, TopicPartition
from tidelog.transactions.partitions import add_partitions, verify_partitions
from tidelog.transactions.transaction import EPOCH_BUMPING_VERSION, FIRST_VERSION, Producer
from tidelog.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

FIRST_VERSION_WITH_FENCED: Final = 2
FIRST_VERSION_FOR_BROKERS: Final = 4

Errors = dict[TopicPartition, ErrorCode]


class AddPartitionsToTxnHandler:
    def __init__(self, transactions: TransactionCoordinator, image: Callable[[], ClusterImage]) -> None:
        self._transactions = transactions
        self._image = image

    def __call__(self, call: Call, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse | None:
        version = call.header.api_version
        if version >= FIRST_VERSION_FOR_BROKERS:
            return self._add_several(call, request.transactions)
        asked = AddPartitionsToTxnTransaction(
            request.v3_and_below_transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )

        def answered(errors: Errors) -> None:
            call.answer(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_results(asked, errors)))

        self._add(asked, version, FIRST_VERSION, answered)
        return None

    def _add_several(
        self, call: Call, transactions: list[AddPartitionsToTxnTransaction]
    ) -> AddPartitionsToTxnResponse | None:
        if not transactions:
            return AddPartitionsToTxnResponse()
        results: list[AddPartitionsToTxnResult] = []

        def answered(asked: AddPartitionsToTxnTransaction, errors: Errors) -> None:
            results.append(AddPartitionsToTxnResult(asked.transactional_id, _results(asked, errors)))
            if len(results) == len(transactions):
                call.answer(AddPartitionsToTxnResponse(results_by_transaction=results))

        for asked in transactions:
            self._ask(asked, call.header.api_version, answered)
        return None

    def _ask(
        self,
        asked: AddPartitionsToTxnTransaction,
        version: int,
        answered: Callable[[AddPartitionsToTxnTransaction, Errors], None],
    ) -> None:
        if not asked.verify_only:
            self._add(asked, version, EPOCH_BUMPING_VERSION, lambda errors: answered(asked, errors))
            return
        partitions = _partitions(asked.topics)

        def verified(outcome: Errors | ProtocolError) -> None:
            if isinstance(outcome, ProtocolError):
                outcome = dict.fromkeys(partitions, error_code(outcome, version, FIRST_VERSION_WITH_FENCED))
            answered(asked, outcome)

        self._transactions.submit(
            asked.transactional_id,
            lambda shard, _, now_ms: verify_partitions(
                shard, asked.transactional_id, _producer(asked), frozenset(partitions)
            ),
            verified,
        )

    def _add(
        self,
        asked: AddPartitionsToTxnTransaction,
        version: int,
        client_version: int,
        answered: Callable[[Errors], None],
    ) -> None:
        partitions = _partitions(asked.topics)
        image = self._image()
        unknown = [partition for partition in partitions if image.partition(*partition) is None]
        if unknown:
            # All or none: the others are only told that nothing was tried.
            errors = dict.fromkeys(partitions, ErrorCode.OPERATION_NOT_ATTEMPTED)
            answered(errors | dict.fromkeys(unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            return
        self._transactions.submit(
            asked.transactional_id,
            lambda shard, _, now_ms: add_partitions(
                shard, asked.transactional_id, _producer(asked), frozenset(partitions), client_version, now_ms
            ),
            lambda outcome: answered(
                dict.fromkeys(partitions, error_code(outcome, version, FIRST_VERSION_WITH_FENCED))
            ),
        )


def _producer(asked: AddPartitionsToTxnTransaction) -> Producer:
    return Producer(ProducerId(asked.producer_id), ProducerEpoch(asked.producer_epoch))


def _partitions(topics: Iterable[AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    return [
        TopicPartition(TopicName(topic.name), PartitionIndex(index)) for topic in topics for index in topic.partitions
    ]


def _results(asked: AddPartitionsToTxnTransaction, errors: Errors) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            topic.name,
            [
                AddPartitionsToTxnPartitionResult(
                    index, errors[TopicPartition(TopicName(topic.name), PartitionIndex(index))]
                )
                for index in topic.partitions
            ],
        )
        for topic in asked.topics
    ]
