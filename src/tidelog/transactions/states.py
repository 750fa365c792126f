"""The states of a transactional id, and the moves between them that are legal.

The numbers are those of the records in `__transaction_state`, the names those that DescribeTransactions shows.
"""

from __future__ import annotations

from enum import Enum
from typing import Final


class State(Enum):
    """Where the newest transaction of a transactional id stands."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    # Being forgotten after long silence: never written, its record is a tombstone.
    DEAD = "Dead"
    # A step of its own in old coordinators; ours goes from ONGOING to PREPARE_ABORT with a new epoch at once.
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"

    # Members are themselves and nothing else; what Enum has for this hashes their names, in Python.
    __hash__ = object.__hash__

    @property
    def number(self) -> int:
        return NUMBERS[self]


NUMBERS: Final[dict[State, int]] = {state: number for number, state in enumerate(State)}
BY_NUMBER: Final[dict[int, State]] = {number: state for state, number in NUMBERS.items()}
BY_NAME: Final[dict[str, State]] = {state.value: state for state in State}

# Nothing is open: a new producer may take over, a new transaction may begin, the id may be forgotten.
AT_REST: Final = frozenset({State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT})
# The outcome is decided and written down; only markers are missing.
ENDING: Final = frozenset({State.PREPARE_COMMIT, State.PREPARE_ABORT})

# A transaction at rest moves to PREPARE_ABORT when a producer that bumps its epoch at every end (KIP-890) aborts one
# in which it has written nothing.
_FROM_REST: Final = frozenset({State.EMPTY, State.ONGOING, State.PREPARE_ABORT, State.DEAD})

LEGAL_MOVES: Final[dict[State, frozenset[State]]] = {
    State.EMPTY: _FROM_REST,
    State.ONGOING: frozenset({State.ONGOING, State.PREPARE_COMMIT, State.PREPARE_ABORT, State.PREPARE_EPOCH_FENCE}),
    State.PREPARE_COMMIT: frozenset({State.COMPLETE_COMMIT}),
    State.PREPARE_ABORT: frozenset({State.COMPLETE_ABORT}),
    State.COMPLETE_COMMIT: _FROM_REST,
    State.COMPLETE_ABORT: _FROM_REST,
    State.DEAD: frozenset(),
    State.PREPARE_EPOCH_FENCE: frozenset({State.PREPARE_ABORT}),
}
