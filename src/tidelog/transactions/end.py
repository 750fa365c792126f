"""EndTxn (key 26), v0-v5: decide a transaction, which is complete when its markers are written.

From v5 on (KIP-890) every end gives the producer a new epoch. That tells a retry, which comes with the old epoch and is
answered as the first time, from the end of the next transaction; and it fences whatever the producer sent before and
arrives later. Older requests can be told apart by nothing: for them the state alone decides.

That a transaction is complete need not be safe before its producer goes on: if it is forgotten, the markers are written
once more. So it is written down with time, and not at all when a record of the next transaction says so, too. Nor need
be that the next one has begun in the same partitions: they say so when such a marker reaches them.
"""

from __future__ import annotations

from typing import TypeVar

from tidelog.machine.runtime import Result
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import NO_PRODUCER, ProducerEpoch, ProducerId, TopicPartition
from tidelog.transactions.calls import Again, Ending, Outcome, Step, answer
from tidelog.transactions.records import TransactionRecord
from tidelog.transactions.shard import TransactionShard, check_producer
from tidelog.transactions.states import ENDING, State
from tidelog.transactions.transaction import (
    EPOCH_BUMPING_VERSION,
    FIRST_VERSION,
    LAST_PRODUCER_EPOCH,
    NO_PRODUCER_EPOCH,
    Producer,
    Transaction,
    next_producer,
)

ReplyT = TypeVar("ReplyT")


def end_transaction(
    shard: TransactionShard,
    transactional_id: str,
    producer: Producer,
    committed: bool,
    version: int,
    fresh_id: ProducerId | None,
    now_ms: int,
) -> Outcome[Producer]:
    """Commit or abort; the reply is the pair that the producer is to use from now on."""
    transaction = shard.transaction_of(transactional_id)
    bumps = version >= EPOCH_BUMPING_VERSION
    state = transaction.state
    if bumps and state is not State.EMPTY and state is not State.ONGOING and transaction.was_ended_by(producer):
        return _answer_retry(transaction, committed)
    check_producer(transaction, producer)
    if state is State.ONGOING:
        return _prepare(shard, transactional_id, transaction, committed, version, fresh_id, now_ms)
    if bumps:
        if state in ENDING:
            raise ProtocolError(ErrorCode.CONCURRENT_TRANSACTIONS, "The end of the transaction before is under way.")
        if committed:
            raise _wrong_state(transaction, committed)
        # Whatever it has sent under this epoch is to be fenced, though nothing of it has arrived.
        begun = transaction.moved(State.ONGOING, partitions=frozenset(), start_ms=now_ms)
        return _prepare(shard, transactional_id, begun, committed, version, fresh_id, now_ms)
    if state is State.EMPTY:
        raise _wrong_state(transaction, committed)
    return _answer_retry(transaction, committed)


def usual_end(
    shard: TransactionShard, transactional_id: str, producer: Producer, committed: bool, now_ms: int
) -> Transaction | None:
    """What `end_transaction` makes of an open transaction of the second protocol; None when only it can tell.

    The producer then goes on with the epoch that it says.
    """
    transaction = shard.transactions.get(transactional_id)
    if (
        transaction is None
        or transaction.state is not State.ONGOING
        or transaction.next_producer_id != NO_PRODUCER
        or (transaction.producer_id, transaction.producer_epoch) != producer
        or producer.epoch >= LAST_PRODUCER_EPOCH
    ):
        return None
    state = State.PREPARE_COMMIT if committed else State.PREPARE_ABORT
    return transaction.prepared(state, ProducerEpoch(producer.epoch + 1), None, now_ms, EPOCH_BUMPING_VERSION)


def fence(
    shard: TransactionShard, transactional_id: str, transaction: Transaction, now_ms: int, reply: ReplyT | Again
) -> Outcome[ReplyT]:
    """Abort an open transaction against its producer, whose epoch is over with that.

    The producer is not told of the new epoch, and is fenced also when it asks for the abort itself: hence the first
    version of the protocol, whose ends nobody can retry with an older epoch.
    """
    fenced = transaction.moved(
        State.PREPARE_ABORT,
        producer_epoch=ProducerEpoch(transaction.producer_epoch + 1),
        updated_ms=now_ms,
        client_version=FIRST_VERSION,
        last_epoch=NO_PRODUCER_EPOCH,
    )
    ending = shard.ending_of(transactional_id, fenced)
    return Result([TransactionRecord(transactional_id, fenced)], Step(reply, ending))


def markers_written(
    shard: TransactionShard, transactional_id: str, marked: tuple[ProducerId, ProducerEpoch], now_ms: int
) -> None:
    """All markers of a transaction, which have this pair, are written: it is complete, as far as this leader knows."""
    transaction = shard.transactions.get(transactional_id)
    if transaction is None or transaction.state not in ENDING:
        return
    if (transaction.producer_id, transaction.producer_epoch) != marked:
        return
    shard.completed[transactional_id] = transaction.completed(now_ms)


def went_on(
    shard: TransactionShard, ending: Ending, partitions: frozenset[TopicPartition], now_ms: int
) -> Result[TransactionRecord, None]:
    """The markers of an end were written before, and its producer's next transaction has begun in these partitions."""
    transaction = shard.transactions.get(ending.transactional_id)
    if (
        transaction is None
        or transaction.state not in ENDING
        or (transaction.producer_id, transaction.producer_epoch) != ending.producer
    ):
        return Result((), None)
    begun = transaction.completed(now_ms).opened(partitions, now_ms, now_ms, EPOCH_BUMPING_VERSION)
    return Result([TransactionRecord(ending.transactional_id, begun)], None)


def write_down(shard: TransactionShard) -> Result[TransactionRecord, None]:
    """Write down what this leader alone knows: ends that are complete, and transactions that have begun since."""
    records = [TransactionRecord(transactional_id, ended) for transactional_id, ended in shard.completed.items()]
    records += [
        TransactionRecord(transactional_id, shard.transactions[transactional_id])
        for transactional_id in sorted(shard.unwritten)
    ]
    return Result(records, None, atomic=False)


def _prepare(
    shard: TransactionShard,
    transactional_id: str,
    transaction: Transaction,
    committed: bool,
    version: int,
    fresh_id: ProducerId | None,
    now_ms: int,
) -> Outcome[Producer]:
    producer = transaction.producer
    after = next_producer(producer, fresh_id) if version >= EPOCH_BUMPING_VERSION else producer
    if after is None:
        return Result((), Step(Again.WITH_PRODUCER_ID))
    # A transaction that was kept prepared has records of an older epoch than the producer that ends it.
    bumps = version >= EPOCH_BUMPING_VERSION or transaction.next_producer_id != NO_PRODUCER
    epoch = ProducerEpoch(transaction.producer_epoch + 1) if bumps else transaction.producer_epoch
    prepared = transaction.prepared(
        State.PREPARE_COMMIT if committed else State.PREPARE_ABORT,
        epoch,
        None if after == (transaction.producer_id, epoch) else after,
        now_ms,
        version,
    )
    ending = shard.ending_of(transactional_id, prepared)
    return Result([TransactionRecord(transactional_id, prepared)], Step(prepared.producer, ending))


def _answer_retry(transaction: Transaction, committed: bool) -> Outcome[Producer]:
    if transaction.is_commit is not committed:
        raise _wrong_state(transaction, committed)
    if transaction.state in ENDING:
        raise ProtocolError(ErrorCode.CONCURRENT_TRANSACTIONS, "The end of the transaction is under way.")
    return answer(transaction.producer)


def _wrong_state(transaction: Transaction, committed: bool) -> ProtocolError:
    verb = "commit" if committed else "abort"
    return ProtocolError(ErrorCode.INVALID_TXN_STATE, f"Cannot {verb}: the transaction is {transaction.state.value}.")
