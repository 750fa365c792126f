"""The table of states: what may follow what, and how states are written down."""

from __future__ import annotations

import pytest

from tidelog.model.ids import NO_PRODUCER, PartitionIndex, TopicName, TopicPartition
from tidelog.transactions.states import AT_REST, BY_NUMBER, ENDING, LEGAL_MOVES, NUMBERS, State
from tidelog.transactions.transaction import COMPLETIONS, NO_PRODUCER_EPOCH, NOTHING_OPEN, Transaction


def test_the_numbers_and_names_are_those_of_apache_kafka() -> None:
    assert {state.value: number for state, number in NUMBERS.items()} == {
        "Empty": 0,
        "Ongoing": 1,
        "PrepareCommit": 2,
        "PrepareAbort": 3,
        "CompleteCommit": 4,
        "CompleteAbort": 5,
        "Dead": 6,
        "PrepareEpochFence": 7,
    }
    assert all(BY_NUMBER[number] is state for state, number in NUMBERS.items())


def test_a_decision_can_only_be_completed_as_it_was_made() -> None:
    assert LEGAL_MOVES[State.PREPARE_COMMIT] == {State.COMPLETE_COMMIT}
    assert LEGAL_MOVES[State.PREPARE_ABORT] == {State.COMPLETE_ABORT}


def test_every_state_has_its_moves_and_only_the_dead_have_none() -> None:
    assert LEGAL_MOVES.keys() == set(State)
    assert [state for state, moves in LEGAL_MOVES.items() if not moves] == [State.DEAD]


def test_what_is_at_rest_can_begin_and_be_forgotten_and_nothing_else_can_be_forgotten() -> None:
    forgettable = {state for state, moves in LEGAL_MOVES.items() if State.DEAD in moves}
    assert forgettable == AT_REST
    assert all(State.ONGOING in LEGAL_MOVES[state] for state in AT_REST)
    assert not AT_REST & ENDING


@pytest.mark.parametrize("state", list(State))
def test_an_illegal_move_is_a_fault_of_ours(state: State) -> None:
    transaction = Transaction(producer_id=1, producer_epoch=0, timeout_ms=1, state=state)
    for after in State:
        if after in LEGAL_MOVES[state]:
            assert transaction.moved(after).state is after
        else:
            with pytest.raises(AssertionError):
                transaction.moved(after)


@pytest.mark.parametrize("state", [State.EMPTY, State.ONGOING, State.COMPLETE_COMMIT, State.COMPLETE_ABORT])
def test_opening_is_a_move(state: State) -> None:
    before = Transaction(7, 3, 60_000, state, NOTHING_OPEN, 11, 12, 6, 8, 2, 2, 1)
    partitions = frozenset({TopicPartition(TopicName("orders"), PartitionIndex(1))})

    assert before.opened(partitions, 21, 22, 0) == before.moved(
        State.ONGOING, partitions=partitions, start_ms=21, updated_ms=22, client_version=0
    )


@pytest.mark.parametrize(("state", "after"), COMPLETIONS.items())
@pytest.mark.parametrize("following", [(NO_PRODUCER, NO_PRODUCER_EPOCH), (8, NO_PRODUCER_EPOCH), (7, 5)])
def test_completing_is_a_move(state: State, after: State, following: tuple[int, int]) -> None:
    partitions = frozenset({TopicPartition(TopicName("orders"), PartitionIndex(1))})
    before = Transaction(7, 3, 60_000, state, partitions, 11, 12, 6, *following, 2, 1)

    assert before.completed(22) == before.moved(
        after,
        producer_id=before.producer.id,
        producer_epoch=before.producer.epoch,
        partitions=NOTHING_OPEN,
        next_producer_id=NO_PRODUCER,
        next_producer_epoch=NO_PRODUCER_EPOCH,
        updated_ms=22,
    )
