"""The states of a transactional producer: which steps are legal, and what an error leads to."""

from __future__ import annotations

import pytest

from tidelog.client.core.transaction import LEGAL_MOVES, PreparedTransaction, State, Transaction, meaning
from tidelog.client.errors import (
    ClientError,
    DeliveryExpired,
    IllegalTransactionState,
    ProducerFenced,
    Rejected,
    TransactionFailed,
)
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import PartitionIndex, ProducerEpoch, ProducerId, TopicName, TopicPartition

PLACE = TopicPartition(TopicName("t"), PartitionIndex(0))


def ready() -> Transaction:
    transaction = Transaction("id")
    transaction.move(State.INITIALIZING)
    transaction.move(State.READY)
    return transaction


def opened() -> Transaction:
    transaction = ready()
    transaction.begin()
    return transaction


def test_the_table_of_moves_knows_every_state_and_the_dead_stay_dead() -> None:
    assert set(LEGAL_MOVES) == set(State)
    assert not LEGAL_MOVES[State.DEAD]
    assert all(State.DEAD in moves for state, moves in LEGAL_MOVES.items() if state is not State.DEAD)


def test_nothing_begins_before_init_and_nothing_is_sent_outside() -> None:
    new = Transaction("id")
    for step in (new.begin, new.check_send, new.check_commit, ready().check_send, opened().begin):
        with pytest.raises(IllegalTransactionState):
            step()


def test_a_lost_batch_leaves_only_an_abort_and_the_next_transaction_a_new_epoch() -> None:
    transaction = opened()
    transaction.failed(DeliveryExpired("late"))
    assert transaction.state is State.FAILED and transaction.needs_epoch
    for step in (transaction.check_send, transaction.check_commit):
        with pytest.raises(TransactionFailed, match="late"):
            step()
    transaction.move(State.ABORTING)
    transaction.move(State.READY)
    transaction.begin()
    transaction.check_send()
    assert transaction.error is None and not transaction.needs_epoch


def test_what_an_abort_lets_go_asks_for_a_new_epoch_and_fails_nothing() -> None:
    transaction = opened()
    transaction.move(State.ABORTING)
    transaction.failed(TransactionFailed("aborted"))
    assert transaction.state is State.ABORTING and transaction.needs_epoch


@pytest.mark.parametrize(
    "error", [ProducerFenced("another"), Rejected(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)]
)
def test_some_errors_end_the_producer(error: ClientError) -> None:
    transaction = opened()
    transaction.failed(error)
    assert transaction.state is State.DEAD
    with pytest.raises(type(error)):
        transaction.begin()


def test_refusals_of_an_old_epoch_mean_that_another_producer_came() -> None:
    assert isinstance(meaning(Rejected(ErrorCode.INVALID_PRODUCER_EPOCH)), ProducerFenced)
    assert isinstance(meaning(Rejected(ErrorCode.CONCURRENT_TRANSACTIONS)), Rejected)


def test_partitions_wait_for_the_coordinator_unless_they_join_by_themselves() -> None:
    explicit, implicit = opened(), opened()
    implicit.implicit_add = True
    assert not explicit.may_send(PLACE) and not explicit.is_started
    explicit.added.add(PLACE)
    assert explicit.may_send(PLACE)
    assert implicit.may_send(PLACE) and implicit.is_started
    assert not ready().may_send(PLACE)


def test_a_prepared_transaction_can_be_written_down() -> None:
    prepared = PreparedTransaction(ProducerId(7), ProducerEpoch(3))
    assert PreparedTransaction.parse(str(prepared)) == prepared
