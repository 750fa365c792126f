"""Whole lives of transactions, seed by seed: producers that die, hang and come back, a network that loses, a broker
that crashes on a disk that forgets and fills up. What producers did is held against what readers saw."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from harness.transaction_scenarios import run
from tidelog.transactions.states import LEGAL_MOVES, State
from tidelog.transactions.transaction import Transaction

# How many worlds are lived through; more of them find rarer things.
SEEDS = int(os.environ.get("TIDELOG_TRANSACTION_SEEDS", "2000"))
CHUNKS = 20


@pytest.mark.req("J3", "J4", "J5")
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_transactions_keep_their_promises_in_every_world(chunk: int) -> None:
    for seed in range(chunk, SEEDS, CHUNKS):
        run(seed)


def test_a_seed_is_a_whole_life() -> None:
    first, second = run(11), run(11)

    assert first == second
    assert first.committed > 2
    assert first.read > 5


def test_a_life_does_not_depend_on_how_python_hashes() -> None:
    """Sets of names have another order in every process: nothing may be done in that order."""
    code = "from harness.transaction_scenarios import run; print(run(12))"
    lives = [
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": str(number), "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for number in (0, 2)
    ]

    assert lives[0] == lives[1]


def test_a_world_in_which_an_end_overtook_a_refusal() -> None:
    """The refused request was forgotten, and acted on when the next transaction ended: too late, against its own
    successor."""
    run(4984)


def test_the_worlds_see_every_move_and_every_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    moves: set[tuple[State, State]] = set()

    def watch(move: Callable[..., Transaction]) -> Callable[..., Transaction]:
        def watched(self: Transaction, *arguments: object, **changes: object) -> Transaction:
            after = move(self, *arguments, **changes)
            moves.add((self.state, after.state))
            return after

        return watched

    for name in ("moved", "opened", "prepared", "completed"):
        monkeypatch.setattr(Transaction, name, watch(getattr(Transaction, name)))
    lives = [run(seed) for seed in range(100)]

    never = {State.DEAD, State.PREPARE_EPOCH_FENCE}  # Ids live longer than these lives; that step is of old brokers.
    legal = {(here, there) for here, moves in LEGAL_MOVES.items() for there in moves if not {here, there} & never}
    # An abort of nothing begins a transaction before it ends it.
    assert legal - moves <= {(state, State.PREPARE_ABORT) for state in State}
    assert sum(life.committed for life in lives) > 300
    assert sum(life.aborted for life in lives) > 100
    assert sum(life.crashes for life in lives) > 100


def test_a_world_in_which_a_marker_met_a_full_disk() -> None:
    """It was staged again in the middle of the write that had failed, which forgot it."""
    run(1806)
