"""EndTxn (key 26), v0-v5. v2: PRODUCER_FENCED (KIP-588). v5: every end gives the producer a new epoch (KIP-890)."""

from __future__ import annotations

from typing import Final

from tidelog.broker.call import Call
from tidelog.broker.transaction_coordinator import TransactionCoordinator
from tidelog.broker.transaction_errors import error_code
from tidelog.model.errors import ProtocolError
from tidelog.model.ids import ProducerEpoch, ProducerId
from tidelog.transactions.end import end_transaction
from tidelog.transactions.transaction import EPOCH_BUMPING_VERSION, FIRST_VERSION, Producer
from tidelog.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

FIRST_VERSION_WITH_FENCED: Final = 2
FIRST_VERSION_WITH_NEW_EPOCH: Final = 5


class EndTxnHandler:
    def __init__(self, transactions: TransactionCoordinator) -> None:
        self._transactions = transactions

    def __call__(self, call: Call, request: EndTxnRequest) -> EndTxnResponse | None:
        version = call.header.api_version
        producer = Producer(ProducerId(request.producer_id), ProducerEpoch(request.producer_epoch))
        client_version = FIRST_VERSION
        if version >= FIRST_VERSION_WITH_NEW_EPOCH:
            client_version = EPOCH_BUMPING_VERSION
            host = self._transactions.led_host(request.transactional_id)
            try:
                ended = host.end_at_once(request.transactional_id, producer, request.committed) if host else None
            except ProtocolError as error:
                return EndTxnResponse(error_code=error_code(error, version, FIRST_VERSION_WITH_FENCED))
            if ended is not None:
                return EndTxnResponse(producer_id=ended.producer_id, producer_epoch=ended.producer_epoch)

        def answer(outcome: Producer | ProtocolError) -> None:
            if isinstance(outcome, ProtocolError):
                call.answer(EndTxnResponse(error_code=error_code(outcome, version, FIRST_VERSION_WITH_FENCED)))
            else:
                call.answer(EndTxnResponse(producer_id=outcome.id, producer_epoch=outcome.epoch))

        self._transactions.submit(
            request.transactional_id,
            lambda shard, fresh_id, now_ms: end_transaction(
                shard, request.transactional_id, producer, request.committed, client_version, fresh_id, now_ms
            ),
            answer,
        )
        return None
