"""AddOffsetsToTxn (key 25), v0-v4. v2: PRODUCER_FENCED (KIP-588).

Adds the partition of `__consumer_offsets` that keeps a group to a transaction, so that its offsets are committed with
it.
"""

from __future__ import annotations

from typing import Final

from tidelog.broker.call import Call
from tidelog.broker.group_coordinator import OFFSETS_TOPIC, GroupCoordinator
from tidelog.broker.transaction_coordinator import TransactionCoordinator
from tidelog.broker.transaction_errors import error_code
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ProducerEpoch, ProducerId, TopicName, TopicPartition
from tidelog.transactions.partitions import add_partitions
from tidelog.transactions.transaction import FIRST_VERSION, Producer
from tidelog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

FIRST_VERSION_WITH_FENCED: Final = 2


class AddOffsetsToTxnHandler:
    def __init__(self, transactions: TransactionCoordinator, groups: GroupCoordinator) -> None:
        self._transactions = transactions
        self._groups = groups

    def __call__(self, call: Call, request: AddOffsetsToTxnRequest) -> None:
        # The topic may not exist yet: a producer commits for a group before any consumer has joined one.
        self._groups.ensure_topic(lambda error: self._add(call, request, error))

    def _add(self, call: Call, request: AddOffsetsToTxnRequest, error: ErrorCode) -> None:
        index = self._groups.partition_of(request.group_id)
        if error is not ErrorCode.NONE or index is None:
            call.answer(AddOffsetsToTxnResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return
        producer = Producer(ProducerId(request.producer_id), ProducerEpoch(request.producer_epoch))
        partitions = frozenset({TopicPartition(TopicName(OFFSETS_TOPIC), index)})
        self._transactions.submit(
            request.transactional_id,
            lambda shard, _, now_ms: add_partitions(
                shard, request.transactional_id, producer, partitions, FIRST_VERSION, now_ms
            ),
            lambda outcome: call.answer(
                AddOffsetsToTxnResponse(
                    error_code=error_code(outcome, call.header.api_version, FIRST_VERSION_WITH_FENCED)
                )
            ),
        )
