"""ListTransactions (key 66), v0-v2 (KIP-664). v1: by duration (KIP-994). v2: by a pattern of ids (KIP-1152).

Lists the transactional ids that this broker coordinates; a client asks every broker.
"""

from __future__ import annotations

from collections.abc import Callable

from tidelog.broker.call import Call
from tidelog.broker.transaction_coordinator import TransactionCoordinator
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.transactions.admin import filter_of, list_
from tidelog.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)


class ListTransactionsHandler:
    def __init__(self, transactions: TransactionCoordinator, now_ms: Callable[[], int]) -> None:
        self._transactions = transactions
        self._now_ms = now_ms

    def __call__(self, call: Call, request: ListTransactionsRequest) -> ListTransactionsResponse | None:
        try:
            wanted, unknown = filter_of(request)
        except ProtocolError as error:
            return ListTransactionsResponse(error_code=error.code)
        hosts = self._transactions.hosts
        if not hosts:
            return ListTransactionsResponse(unknown_state_filters=unknown)
        missing = len(hosts)
        found: list[TransactionState] = []
        error_code = ErrorCode.NONE

        def answered(outcome: list[TransactionState] | ProtocolError) -> None:
            nonlocal missing, error_code
            missing -= 1
            if isinstance(outcome, ProtocolError):
                # A shard that moved away meanwhile: the client asks again, or the broker that has it now.
                error_code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            else:
                found.extend(outcome)
            if not missing:
                call.answer(
                    ListTransactionsResponse(
                        error_code=error_code,
                        unknown_state_filters=unknown,
                        transaction_states=[] if error_code else found,
                    )
                )

        now_ms = self._now_ms()
        for host in hosts:
            host.ask(lambda shard: list_(shard, wanted, now_ms), answered)
        return None
