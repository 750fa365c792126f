"""The states of a classic group and the legal moves between them."""

from __future__ import annotations

from enum import Enum
from typing import Final


class State(Enum):
    """By its name in DescribeGroups and ListGroups."""

    # Nobody is in it; it may have offsets.
    EMPTY = "Empty"
    # Members are asked to join (again); JoinGroup waits.
    PREPARING_REBALANCE = "PreparingRebalance"
    # All have joined; SyncGroup waits for the leader's assignment.
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    # The group is deleted, or its coordinator moved away.
    DEAD = "Dead"


LEGAL_MOVES: Final[dict[State, frozenset[State]]] = {
    State.EMPTY: frozenset({State.PREPARING_REBALANCE, State.DEAD}),
    State.PREPARING_REBALANCE: frozenset({State.COMPLETING_REBALANCE, State.EMPTY, State.DEAD}),
    State.COMPLETING_REBALANCE: frozenset({State.STABLE, State.PREPARING_REBALANCE, State.DEAD}),
    State.STABLE: frozenset({State.PREPARING_REBALANCE, State.DEAD}),
    State.DEAD: frozenset({State.DEAD}),
}
