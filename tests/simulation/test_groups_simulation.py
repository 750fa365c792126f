"""Whole groups, seed by seed: members that come, go, hang and die, a network that loses, a coordinator that crashes."""

from __future__ import annotations

import os

import pytest

from harness.group_scenarios import run
from tidelog.groups.classic.group import ClassicGroup
from tidelog.groups.classic.states import LEGAL_MOVES, State
from tidelog.groups.deadlines import Alarm, Deadlines, Timer

# How many worlds are lived through; more of them find rarer things.
SEEDS = int(os.environ.get("TIDELOG_GROUP_SEEDS", "2000"))
CHUNKS = 20


@pytest.mark.req("A21", "L1", "L2", "L3", "K11")
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_groups_keep_their_promises_in_every_world(chunk: int) -> None:
    for seed in range(chunk, SEEDS, CHUNKS):
        run(seed)


def test_a_seed_is_a_whole_life() -> None:
    first, second = run(7), run(7)

    assert first == second
    assert first.commits > 10


def test_the_worlds_see_every_move_and_nearly_every_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    moves: set[tuple[State, State]] = set()
    alarms: set[Alarm] = set()
    move, pop = ClassicGroup.move, Deadlines.pop

    def moved(self: ClassicGroup, state: State, now_ms: int) -> None:
        moves.add((self.state, state))
        move(self, state, now_ms)

    def popped(self: Deadlines, now_ms: int) -> Timer | None:
        timer = pop(self, now_ms)
        if timer is not None:
            alarms.add(timer.alarm)
        return timer

    monkeypatch.setattr(ClassicGroup, "move", moved)
    monkeypatch.setattr(Deadlines, "pop", popped)
    for seed in range(150):
        run(seed)

    assert moves == {(here, there) for here, moves in LEGAL_MOVES.items() for there in moves if there is not State.DEAD}
    # Offsets are kept for longer than any of these lives.
    assert set(Alarm) - alarms <= {Alarm.RETENTION, Alarm.CONSUMER_JOIN, Alarm.CONSUMER_SYNC}
