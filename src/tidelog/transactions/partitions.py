"""AddPartitionsToTxn (key 24), v0-v5, and AddOffsetsToTxn (key 25), v0-v4: which partitions a transaction writes to.

Clients of the first protocol add each partition before they write to it, and partition leaders verify that they did;
for clients of the second (KIP-890) the leaders add it with the first batch.
"""

from __future__ import annotations

from tidelog.machine.runtime import Result
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import NO_PRODUCER, TopicPartition
from tidelog.transactions.calls import Outcome, Step, answer
from tidelog.transactions.records import TransactionRecord
from tidelog.transactions.shard import TransactionShard, check_producer
from tidelog.transactions.states import AT_REST, ENDING, State
from tidelog.transactions.transaction import EPOCH_BUMPING_VERSION, Producer, Transaction


def add_partitions(
    shard: TransactionShard,
    transactional_id: str,
    producer: Producer,
    partitions: frozenset[TopicPartition],
    version: int,
    now_ms: int,
) -> Outcome[None]:
    """Add partitions to the producer's transaction, which begins with the first."""
    transaction = _open_to(shard, transactional_id, producer)
    if transaction.state is State.ONGOING:
        if transaction.next_producer_id != NO_PRODUCER:
            raise ProtocolError(ErrorCode.INVALID_TXN_STATE, "A transaction that was kept prepared can only be ended.")
        if partitions <= transaction.partitions:
            return answer(None)
    start_ms = now_ms if transaction.state in AT_REST else transaction.start_ms
    added = transaction.opened(transaction.partitions | partitions, start_ms, now_ms, version)
    return Result([TransactionRecord(transactional_id, added)], Step(None))


def usual_begin(
    shard: TransactionShard, transactional_id: str, producer: Producer, partition: TopicPartition, now_ms: int
) -> Transaction | None:
    """What `add_partitions` makes of a transaction that begins with a partition; None when only it can tell."""
    transaction = shard.completed.get(transactional_id) or shard.transactions.get(transactional_id)
    if (
        transaction is None
        or transaction.state not in AT_REST
        or transaction.next_producer_id != NO_PRODUCER
        or (transaction.producer_id, transaction.producer_epoch) != producer
    ):
        return None
    return transaction.opened(frozenset((partition,)), now_ms, now_ms, EPOCH_BUMPING_VERSION)


def is_found_again(shard: TransactionShard, transactional_id: str, partition: TopicPartition) -> bool:
    """Whether a transaction that begins with this partition is not lost with the leader, though no record says so.

    The newest record decides the end of the one before, which had this partition, too: who reads it has its marker
    written once more, and the partition refuses it, for the transaction that is open there has the marker's epoch.
    """
    ended = shard.transactions.get(transactional_id)
    return (
        ended is not None
        and ended.state in ENDING
        and partition in ended.partitions
        and ended.client_version >= EPOCH_BUMPING_VERSION
        and ended.next_producer_id == NO_PRODUCER
    )


def verify_partitions(
    shard: TransactionShard, transactional_id: str, producer: Producer, partitions: frozenset[TopicPartition]
) -> Outcome[dict[TopicPartition, ErrorCode]]:
    """Which of some partitions belong to the producer's open transaction."""
    transaction = _open_to(shard, transactional_id, producer)
    return answer(
        {
            partition: ErrorCode.NONE if partition in transaction.partitions else ErrorCode.TRANSACTION_ABORTABLE
            for partition in partitions
        }
    )


def _open_to(shard: TransactionShard, transactional_id: str, producer: Producer) -> Transaction:
    transaction = shard.transaction_of(transactional_id)
    check_producer(transaction, producer)
    if transaction.state in ENDING:
        raise ProtocolError(ErrorCode.CONCURRENT_TRANSACTIONS, "The end of the transaction before is under way.")
    return transaction
