"""DescribeTransactions (key 65), v0, and ListTransactions (key 66), v0-v2: what a coordinator knows (KIP-664).

A list concerns every shard of a broker: each command answers for its own, and the edge puts the parts together.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.machine.runtime import Result
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.patterns import Pattern, compile_re2
from tidelog.transactions.records import TransactionRecord
from tidelog.transactions.shard import TransactionShard
from tidelog.transactions.states import BY_NAME, State
from tidelog.transactions.transaction import Transaction
from tidelog.wire.messages import list_transactions
from tidelog.wire.messages.describe_transactions import TopicData, TransactionState


@dataclass(frozen=True, slots=True)
class Filter:
    """Which transactions are asked for; what is None, or no producer ids, excludes none. As in Apache Kafka."""

    # Empty when nothing but names of no state was asked for: then there is none.
    states: frozenset[State] | None = None
    producer_ids: frozenset[int] = frozenset()
    # Those that began so long ago, ended or not. One that never began (-1) began long ago.
    began_before_ms: int | None = None
    id_pattern: Pattern | None = None

    def matches(self, transactional_id: str, transaction: Transaction, now_ms: int) -> bool:
        if self.states is not None and transaction.state not in self.states:
            return False
        if self.producer_ids and transaction.producer_id not in self.producer_ids:
            return False
        if self.began_before_ms is not None and now_ms - transaction.start_ms <= self.began_before_ms:
            return False
        return self.id_pattern is None or self.id_pattern.matches(transactional_id)


def filter_of(request: list_transactions.ListTransactionsRequest) -> tuple[Filter, list[str]]:
    """The filter of a request, and the names in it that are no state. INVALID_REGULAR_EXPRESSION for a bad pattern."""
    unknown = [name for name in request.state_filters if name not in BY_NAME]
    pattern = None
    if request.transactional_id_pattern:
        try:
            pattern = compile_re2(request.transactional_id_pattern)
        except ValueError as error:
            raise ProtocolError(ErrorCode.INVALID_REGULAR_EXPRESSION, str(error)) from error
    states = None
    if request.state_filters:
        states = frozenset(BY_NAME[name] for name in request.state_filters if name in BY_NAME)
    duration_ms = request.duration_filter if request.duration_filter >= 0 else None
    return Filter(states, frozenset(request.producer_id_filters), duration_ms, pattern), unknown


def list_(
    shard: TransactionShard, wanted: Filter, now_ms: int
) -> Result[TransactionRecord, list[list_transactions.TransactionState]]:
    """The transactional ids of a shard that a filter lets through."""
    return Result(
        (),
        [
            list_transactions.TransactionState(transactional_id, transaction.producer_id, transaction.state.value)
            for transactional_id, transaction in (shard.transactions | shard.completed).items()
            if wanted.matches(transactional_id, transaction, now_ms)
        ],
    )


def describe(shard: TransactionShard, transactional_id: str) -> Result[TransactionRecord, TransactionState]:
    """One transactional id: who has it, and what its newest transaction wrote to."""
    transaction = shard.newest(transactional_id)
    if transaction is None:
        return Result((), refused(transactional_id, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND))
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(transaction.partitions):
        topics.setdefault(topic, []).append(partition)
    return Result(
        (),
        TransactionState(
            transactional_id=transactional_id,
            transaction_state=transaction.state.value,
            transaction_timeout_ms=transaction.timeout_ms,
            transaction_start_time_ms=transaction.start_ms,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            topics=[TopicData(topic, partitions) for topic, partitions in topics.items()],
        ),
    )


def refused(transactional_id: str, error: ErrorCode) -> TransactionState:
    """The description of an id about which nothing can be said here."""
    return TransactionState(error_code=error, transactional_id=transactional_id)
