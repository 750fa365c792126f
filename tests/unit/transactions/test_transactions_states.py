"""The table of states: what may follow what, and how states are written down."""

from __future__ import annotations

import pytest

from tidelog.transactions.states import AT_REST, BY_NUMBER, ENDING, LEGAL_MOVES, NUMBERS, State
from tidelog.transactions.transaction import Transaction


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
