"""TxnOffsetCommit (key 28), v0-v5. v3: members say who they are (KIP-447). v5: the group's partition is added to the
transaction by the broker (KIP-890).

Offsets that a producer commits for a group as part of its transaction: they count when it commits. The transaction's
coordinator must know of the group's partition before anything is written there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidelog.broker.call import Call
from tidelog.broker.group_coordinator import OFFSETS_TOPIC, GroupCoordinator
from tidelog.broker.transaction_verification import TransactionVerification
from tidelog.groups.calls import Caller
from tidelog.groups.offsets.commit import commit_transaction_offsets
from tidelog.groups.refusals import refusal
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import ProducerEpoch, ProducerId, TopicName, TopicPartition
from tidelog.replica.leader import PartitionLeader
from tidelog.replica.partitions import NONE_LED, LedPartitions
from tidelog.transactions.transaction import Producer
from tidelog.wire.messages.txn_offset_commit import TxnOffsetCommitRequest

FIRST_VERSION_WITH_ABORTABLE: Final = 4
FIRST_VERSION_THAT_ADDS: Final = 5

# A producer expects no errors of the transaction's coordinator from the group's.
ERRORS: Final[dict[ErrorCode, ErrorCode]] = {
    ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.CONCURRENT_TRANSACTIONS: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}


class TxnOffsetCommitHandler:
    def __init__(
        self,
        groups: GroupCoordinator,
        partitions: LedPartitions,
        verification: TransactionVerification,
        now_ms: Callable[[], int],
    ) -> None:
        self._groups = groups
        self._partitions = partitions
        self._verification = verification
        self._now_ms = now_ms

    def __call__(self, call: Call, request: TxnOffsetCommitRequest) -> None:
        index = self._groups.partition_of(request.group_id)
        leader = None if index is None else self._partitions.by_name.get(OFFSETS_TOPIC, NONE_LED).get(index)
        if index is None or leader is None:
            _refuse(call, request, ErrorCode.NOT_COORDINATOR)
            return
        producer = Producer(ProducerId(request.producer_id), ProducerEpoch(request.producer_epoch))
        if leader.log.producers.has_open_transaction(*producer):
            self._commit(call, request, leader)
            return
        adds = call.header.api_version >= FIRST_VERSION_THAT_ADDS
        verifications = leader.log.producers.verifications
        verification = verifications.begin(*producer, 0, starts_at_zero=adds, now_ms=self._now_ms())
        partition = TopicPartition(TopicName(OFFSETS_TOPIC), index)

        def settled(errors: dict[TopicPartition, ErrorCode]) -> None:
            code = errors[partition]
            is_valid = verifications.agreed(producer.id, verification, code)
            if code is not ErrorCode.NONE:
                _refuse(call, request, _error(code, call.header.api_version))
            elif not is_valid and not leader.log.producers.has_open_transaction(*producer):
                # The transaction ended while its coordinator was asked.
                _refuse(call, request, ErrorCode.INVALID_TXN_STATE)
            else:
                self._commit(call, request, leader)

        self._verification.settle(request.transactional_id, producer, frozenset({partition}), settled, adds=adds)

    def _commit(self, call: Call, request: TxnOffsetCommitRequest, leader: PartitionLeader) -> None:
        header = call.header
        try:
            leader.log.producers.check_epoch(ProducerId(request.producer_id), ProducerEpoch(request.producer_epoch))
        except ProtocolError as error:
            _refuse(call, request, error.code)
            return
        caller = Caller(call, header.api_version, header.client_id or "", f"/{call.connection.peer_host}")
        self._groups.submit(
            request.group_id,
            lambda shard, now_ms: commit_transaction_offsets(shard, request, caller, now_ms),
            lambda error: _refuse(call, request, error),
        )


def _error(code: ErrorCode, version: int) -> ErrorCode:
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < FIRST_VERSION_WITH_ABORTABLE:
        return ErrorCode.INVALID_TXN_STATE
    return ERRORS.get(code, code)


def _refuse(call: Call, request: TxnOffsetCommitRequest, error: ErrorCode) -> None:
    call.answer(refusal(request, call.header.api_version, error))
