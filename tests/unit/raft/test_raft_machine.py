"""The machine as its driver sees it: roles, timers, clocks, and the order of effects."""

from __future__ import annotations

from typing import get_args

import pytest

from harness.raft.desk import SETTINGS, Desk, log_of
from tidelog.model.ids import NO_NODE, LeaderEpoch
from tidelog.raft import effects as do
from tidelog.raft import events as on
from tidelog.raft.machine import HANDLERS, PURSUITS
from tidelog.raft.roles import LEGAL_MOVES, Role, RoleName


def test_there_is_a_decision_for_every_event_and_a_pursuit_for_every_role() -> None:
    assert set(HANDLERS) == set(get_args(on.Event))
    assert set(PURSUITS) == set(RoleName) == {role.name for role in get_args(Role)}


def test_the_legal_moves_are_a_table_with_a_reason_for_each() -> None:
    assert set(LEGAL_MOVES) == set(RoleName)
    assert all(reason for moves in LEGAL_MOVES.values() for reason in moves.values())
    # Nobody leads without having stood, and who has led does not follow anybody in the same epoch.
    assert [role for role, moves in LEGAL_MOVES.items() if RoleName.LEADER in moves] == [RoleName.CANDIDATE]
    assert RoleName.LEADER not in LEGAL_MOVES[RoleName.RESIGNED]


@pytest.mark.req("F5")
def test_who_decides_alone_leads_from_the_first_step_on() -> None:
    desk = Desk(voters=(1,))

    kinds = [type(effect) for effect in desk.start()]

    assert kinds == [
        do.BecameUnattached, do.PersistState, do.BecameCandidate, do.BecameLeader, do.AppendToLog, do.SyncLog
    ]  # fmt: skip
    assert desk.quorum.leading_epoch == 1
    assert [type(effect) for effect in desk.sync()] == [do.CommittedUpTo, do.LeadershipEstablished]


def test_what_a_restart_finds_is_synced_before_it_is_acknowledged() -> None:
    desk = Desk(log=log_of((1, 3)))

    desk.start()

    assert not desk.all(do.SendFetch)
    desk.sync()
    assert desk.only(do.SendFetch).offset == 3


def test_a_timer_is_set_only_when_it_must_go_off_earlier() -> None:
    desk = Desk()
    desk.start()
    assert desk.only(do.StartTimer).deadline_ms == SETTINGS.election_timeout_ms

    assert not [effect for effect in desk.step(on.RequestFailed(999)) if isinstance(effect, do.StartTimer)]


def test_a_timer_that_went_off_too_early_is_set_again() -> None:
    desk = Desk()
    desk.start()

    assert desk.step(on.Tick()) == [do.StartTimer(SETTINGS.election_timeout_ms)]


def test_a_clock_that_is_set_back_only_makes_waiting_longer() -> None:
    desk = Desk()
    desk.now_ms = 10_000
    desk.start()
    desk.now_ms = 0

    desk.step(on.Tick())
    assert desk.quorum.role is RoleName.UNATTACHED
    desk.pass_time(10_000 + SETTINGS.election_timeout_ms)

    assert desk.quorum.role is RoleName.PROSPECTIVE


def test_a_clock_that_jumps_ahead_makes_a_leader_resign_and_loses_nothing() -> None:
    desk = Desk()
    desk.become_established_leader()
    committed = desk.quorum.high_watermark

    desk.pass_time(10**9)

    assert desk.quorum.role is RoleName.RESIGNED
    assert desk.quorum.high_watermark == committed


def test_what_is_remembered_is_written_once_for_each_step() -> None:
    desk = Desk(voters=(1,))
    desk.start()

    assert desk.only(do.PersistState) == do.PersistState(LeaderEpoch(1), desk.quorum.voters.keys[0], 1)


def test_a_driver_that_leaves_out_an_effect_is_found_out() -> None:
    desk = Desk()
    desk.become_leader()
    desk.log.truncate(desk.log.start_offset)

    with pytest.raises(AssertionError, match="left out"):
        desk.step(on.Tick())


def test_a_member_says_who_it_is() -> None:
    desk = Desk()
    desk.start()

    assert repr(desk.quorum) == "Quorum(1@0001, unattached, epoch 0, 0/0)"
    assert (desk.quorum.leader, desk.quorum.leading_epoch) == (NO_NODE, -1)
    assert desk.quorum.describe().voters == ()
