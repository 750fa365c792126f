"""InitProducerId (key 22), v0-v6. v3: an epoch may be bumped (KIP-360). v4: PRODUCER_FENCED (KIP-588). v5: the second
protocol of transactions (KIP-890). v6: two-phase commit (KIP-939).

Idempotent producers get an id of their own. A transactional id belongs to whoever asked for it last.
"""

from __future__ import annotations

from typing import Final

from tidelog.broker.call import Call
from tidelog.broker.producer_ids import ProducerIds
from tidelog.broker.transaction_coordinator import TransactionCoordinator
from tidelog.broker.transaction_errors import error_code
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import NO_PRODUCER, ProducerEpoch, ProducerId
from tidelog.transactions.init import Asked, Initialized, init_producer
from tidelog.transactions.transaction import NO_PRODUCER_EPOCH, Producer
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

FIRST_VERSION_WITH_FENCED: Final = 4


class InitProducerIdHandler:
    def __init__(self, producer_ids: ProducerIds, transactions: TransactionCoordinator) -> None:
        self._producer_ids = producer_ids
        self._transactions = transactions

    def __call__(self, call: Call, request: InitProducerIdRequest) -> InitProducerIdResponse | None:
        has = Producer(ProducerId(request.producer_id), ProducerEpoch(request.producer_epoch))
        if (has.id == NO_PRODUCER) is not (has.epoch == NO_PRODUCER_EPOCH):
            return _refused(ErrorCode.INVALID_REQUEST)
        if request.transactional_id == "":
            return _refused(ErrorCode.INVALID_REQUEST)
        if request.transactional_id is None:
            self._producer_ids.take(lambda outcome: call.answer(_given(outcome)))
            return None
        asked = Asked(
            request.transactional_id,
            request.transaction_timeout_ms,
            None if has.id == NO_PRODUCER else has,
            request.enable2_pc,
            request.keep_prepared_txn,
        )

        def answer(outcome: Initialized | ProtocolError) -> None:
            if isinstance(outcome, ProtocolError):
                call.answer(_refused(error_code(outcome, call.header.api_version, FIRST_VERSION_WITH_FENCED)))
                return
            call.answer(
                InitProducerIdResponse(
                    producer_id=outcome.producer.id,
                    producer_epoch=outcome.producer.epoch,
                    ongoing_txn_producer_id=outcome.ongoing.id,
                    ongoing_txn_producer_epoch=outcome.ongoing.epoch,
                )
            )

        self._transactions.submit(
            asked.transactional_id,
            lambda shard, fresh_id, now_ms: init_producer(shard, asked, fresh_id, now_ms),
            answer,
        )
        return None


def _given(outcome: ProducerId | ProtocolError) -> InitProducerIdResponse:
    if isinstance(outcome, ProtocolError):
        # The client tries again; it does not matter where the block of ids is held up.
        return _refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return InitProducerIdResponse(producer_id=outcome)


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
