"""Whole quorums, seed by seed: crashes, torn disks, lost and late messages, one-way cuts, odd clocks, new voters."""

from __future__ import annotations

import os
from collections import Counter
from typing import get_args

import pytest

from harness.raft.member import Member
from harness.raft.simulation import run
from tidelog.raft import effects as do
from tidelog.raft import events as on
from tidelog.raft import moves
from tidelog.raft.node import Node
from tidelog.raft.roles import LEGAL_MOVES, Role, RoleName

# How many quorums live, and from which seed on; a failure says how to see one of them again.
SEEDS = int(os.environ.get("TIDELOG_RAFT_SEEDS", "10000"))
FIRST_SEED = int(os.environ.get("TIDELOG_RAFT_FIRST_SEED", "0"))
CHUNKS = 20
EVENTS_PER_SEED_MIN = 200
# Enough to see everything that can happen at all.
SEEDS_TO_SEE_ALL = 400


@pytest.mark.req("F5", "F6", "F8")
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_a_quorum_keeps_its_promises_whatever_happens(chunk: int) -> None:
    seeds = range(FIRST_SEED + chunk, FIRST_SEED + SEEDS, CHUNKS)

    events = sum(run(seed).steps for seed in seeds)

    assert events >= len(seeds) * EVENTS_PER_SEED_MIN or len(seeds) < 10, "runs so short prove little"


def test_a_seed_is_a_whole_run() -> None:
    first, second = run(11), run(11)

    assert first.steps == second.steps > 0
    assert first.referee.committed == second.referee.committed
    assert first.referee.votes == second.referee.votes


def test_the_runs_see_every_legal_move_every_event_and_every_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: Counter[object] = Counter()
    enter, step = moves._enter, Member.step

    def entered(node: Node, role: Role) -> None:
        seen[node.role.name, role.name] += 1
        enter(node, role)

    def stepped(self: Member, event: on.Event) -> None:
        seen[type(event)] += 1
        step(self, event)
        seen.update(type(effect) for effect in self.quorum._node.effects)

    monkeypatch.setattr(moves, "_enter", entered)
    monkeypatch.setattr(Member, "step", stepped)

    for seed in range(SEEDS_TO_SEE_ALL):
        run(seed)

    legal = {(here, there) for here, targets in LEGAL_MOVES.items() for there in targets}
    # A quorum here has two voters or more: who decides alone is seen in the unit tests.
    legal -= {(RoleName.UNATTACHED, RoleName.CANDIDATE), (RoleName.RESIGNED, RoleName.CANDIDATE)}
    assert {move for move in seen if isinstance(move, tuple)} == legal
    assert set(get_args(on.Event)) <= set(seen)
    # Nobody here sends what makes no sense.
    assert set(get_args(do.Effect)) - set(seen) == {do.Complain}
