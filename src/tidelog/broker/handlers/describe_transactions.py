"""DescribeTransactions (key 65), v0 (KIP-664)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tidelog.broker.call import Call
from tidelog.broker.transaction_coordinator import TransactionCoordinator
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.transactions.admin import describe, refused
from tidelog.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)

_Answered: TypeAlias = Callable[[str, TransactionState | ProtocolError], None]


class DescribeTransactionsHandler:
    def __init__(self, transactions: TransactionCoordinator) -> None:
        self._transactions = transactions

    def __call__(self, call: Call, request: DescribeTransactionsRequest) -> DescribeTransactionsResponse | None:
        ids = request.transactional_ids
        if not ids:
            return DescribeTransactionsResponse()
        states: list[TransactionState] = []

        def answered(transactional_id: str, outcome: TransactionState | ProtocolError) -> None:
            if isinstance(outcome, ProtocolError):
                outcome = refused(transactional_id, outcome.code)
            states.append(outcome)
            if len(states) == len(ids):
                call.answer(DescribeTransactionsResponse(transaction_states=states))

        for transactional_id in ids:
            self._ask(transactional_id, answered)
        return None

    def _ask(self, transactional_id: str, answered: _Answered) -> None:
        try:
            if not transactional_id:
                raise ProtocolError(ErrorCode.INVALID_REQUEST)
            host = self._transactions.host(transactional_id)
        except ProtocolError as error:
            answered(transactional_id, error)
            return
        host.ask(lambda shard: describe(shard, transactional_id), lambda outcome: answered(transactional_id, outcome))
