"""InitProducerId (key 22), v0-v6, for transactional ids: give the id to the producer that asks, fence all before it.

An open transaction of its predecessor is aborted first, unless the asker wants to keep it prepared (KIP-939). A
producer that names the pair it has (KIP-360) only gets a new epoch while nobody has taken over.
"""

from __future__ import annotations

from typing import NamedTuple

from tidelog.machine.runtime import Result
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import NO_PRODUCER, NO_TIMESTAMP, ProducerEpoch, ProducerId
from tidelog.transactions.calls import Again, Outcome, Step
from tidelog.transactions.end import fence
from tidelog.transactions.records import TransactionRecord
from tidelog.transactions.shard import TransactionShard
from tidelog.transactions.states import ENDING, State
from tidelog.transactions.transaction import (
    LAST_PRODUCER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_TIMEOUT_MS,
    NOBODY,
    Producer,
    Transaction,
    next_producer,
)


class Asked(NamedTuple):
    """What a producer asks for."""

    transactional_id: str
    timeout_ms: int
    # The pair that it has, when it only wants a new epoch.
    has: Producer | None = None
    two_phase_commit: bool = False
    keep_prepared: bool = False


class Initialized(NamedTuple):
    """The pair that the producer is to use, and that of the transaction which was kept for it, if one was."""

    producer: Producer
    ongoing: Producer = NOBODY


def init_producer(
    shard: TransactionShard, asked: Asked, fresh_id: ProducerId | None, now_ms: int
) -> Outcome[Initialized]:
    """Give a transactional id to the producer that asks."""
    timeout_ms = _timeout_ms(shard, asked)
    transaction = shard.newest(asked.transactional_id)
    if transaction is None:
        if fresh_id is None:
            return Result((), Step(Again.WITH_PRODUCER_ID))
        # Who names a pair here was forgotten for its long silence: it starts as anybody else does.
        return _initialized(asked, Transaction(fresh_id, ProducerEpoch(0), timeout_ms, updated_ms=now_ms))
    _check_owner(transaction, asked.has)
    if transaction.state in ENDING:
        raise ProtocolError(ErrorCode.CONCURRENT_TRANSACTIONS, "The end of a transaction is under way.")
    if transaction.state is State.ONGOING:
        if asked.has is not None and asked.has != transaction.producer:
            raise _fenced(transaction, asked.has)
        if asked.keep_prepared:
            return _keep(asked, transaction, fresh_id, now_ms)
        return fence(shard, asked.transactional_id, transaction, now_ms, Again.WHEN_ENDED)
    producer, last_epoch = _next(transaction, asked.has, fresh_id)
    if producer is None:
        return Result((), Step(Again.WITH_PRODUCER_ID))
    return _initialized(
        asked,
        transaction.moved(
            State.EMPTY,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            previous_producer_id=transaction.producer_id,
            next_producer_id=NO_PRODUCER,
            next_producer_epoch=NO_PRODUCER_EPOCH,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            start_ms=NO_TIMESTAMP,
            updated_ms=now_ms,
            last_epoch=last_epoch,
        ),
    )


def _timeout_ms(shard: TransactionShard, asked: Asked) -> int:
    if asked.two_phase_commit:
        if not shard.settings.two_phase_commit:
            raise ProtocolError(
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "transaction.two.phase.commit.enable is not set."
            )
        others = len(shard.two_phase_ids) - (asked.transactional_id in shard.two_phase_ids)
        if others >= shard.settings.two_phase_ids_max:
            raise ProtocolError(
                ErrorCode.POLICY_VIOLATION, f"{others} transactional ids use two-phase commit, which is the limit."
            )
        return NO_TIMEOUT_MS
    if not 0 < asked.timeout_ms <= shard.settings.timeout_ms_max:
        raise ProtocolError(
            ErrorCode.INVALID_TRANSACTION_TIMEOUT,
            f"The timeout {asked.timeout_ms} is not between 1 and {shard.settings.timeout_ms_max}.",
        )
    return asked.timeout_ms


def _check_owner(transaction: Transaction, has: Producer | None) -> None:
    """Who names a pair must have the id still, or have had it until its epochs were used up."""
    if has is None or has.id == transaction.producer.id:
        return
    if has.id != transaction.previous_producer_id or has.epoch < LAST_PRODUCER_EPOCH:
        raise _fenced(transaction, has)


def _next(
    transaction: Transaction, has: Producer | None, fresh_id: ProducerId | None
) -> tuple[Producer | None, ProducerEpoch]:
    """The pair that a producer gets while nothing is open, None when a fresh id is needed; and the epoch before it."""
    now = transaction.producer
    if has is not None and has != now:
        if has.epoch == transaction.last_epoch:
            # The answer to its first request was lost; nobody came in between, or that epoch would not be known.
            return now, transaction.last_epoch
        raise _fenced(transaction, has)
    return next_producer(now, fresh_id), NO_PRODUCER_EPOCH if has is None else now.epoch


def _keep(asked: Asked, transaction: Transaction, fresh_id: ProducerId | None, now_ms: int) -> Outcome[Initialized]:
    """Fence the producer before, but leave its transaction open for this one to end. It keeps its time-out, or none."""
    producer = next_producer(transaction.producer, fresh_id)
    if producer is None:
        return Result((), Step(Again.WITH_PRODUCER_ID))
    kept = transaction.moved(
        State.ONGOING,
        next_producer_id=producer.id,
        next_producer_epoch=producer.epoch or NO_PRODUCER_EPOCH,
        updated_ms=now_ms,
        last_epoch=NO_PRODUCER_EPOCH,
    )
    ongoing = Producer(transaction.producer_id, transaction.producer_epoch)
    return _initialized(asked, kept, ongoing)


def _initialized(asked: Asked, transaction: Transaction, ongoing: Producer = NOBODY) -> Outcome[Initialized]:
    record = TransactionRecord(asked.transactional_id, transaction)
    return Result([record], Step(Initialized(transaction.producer, ongoing)))


def _fenced(transaction: Transaction, has: Producer) -> ProtocolError:
    now = transaction.producer
    return ProtocolError(
        ErrorCode.PRODUCER_FENCED,
        f"Producer {has.id} with epoch {has.epoch} was replaced by producer {now.id} with epoch {now.epoch}.",
    )
