"""Coordinators with a fault that was put in on purpose: the simulation must find every one of them.

A simulation that cannot lose proves nothing. Each mutant breaks one promise; the test fails when it survives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.group_invariants import Violation
from harness.group_scenarios import run
from tidelog.groups import expiry
from tidelog.groups.calls import Caller, Outcome, answer
from tidelog.groups.classic import sync
from tidelog.groups.classic.answers import sync_answer
from tidelog.groups.classic.group import ClassicGroup
from tidelog.groups.classic.states import State
from tidelog.groups.consumer import leave
from tidelog.groups.consumer.assignment import NOTHING
from tidelog.groups.consumer.group import ConsumerGroup
from tidelog.groups.consumer.member import ConsumerMember
from tidelog.groups.deadlines import Alarm, Deadlines
from tidelog.groups.offsets import commit, repeated
from tidelog.groups.offsets.commit import GRANTED
from tidelog.groups.offsets.repeated import RepeatedCommit
from tidelog.groups.offsets.store import OffsetStore
from tidelog.groups.shard import GroupShard
from tidelog.machine.runtime import Runtime
from tidelog.wire.messages.sync_group import SyncGroupRequest

# Worlds that a mutant gets to be found in. Most are found in the first few.
SEEDS = 300
# By their number modulo 3: groups of classic members, of consumers, of both.
CLASSIC, CONSUMER, BOTH = 0, 1, 2

Mutate = Callable[[pytest.MonkeyPatch], None]


def commits_of_old_generations(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(commit, "check_committer", lambda *_: GRANTED)
    patch.setattr(commit, "show_life", lambda *_: None)


def repeated_commits_of_old_generations(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(repeated, "check_committer", lambda *_: GRANTED)
    patch.setattr(repeated, "show_life", lambda *_: None)


def late_commits_of_what_others_own(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ConsumerMember, "has_owned", lambda *_: True)


def repeated_commits_to_the_wrong_places(patch: pytest.MonkeyPatch) -> None:
    original = RepeatedCommit.places
    patch.setattr(RepeatedCommit, "places", lambda *known: (places := original(*known)) and [*places[1:], places[0]])


def sync_before_the_leader(patch: pytest.MonkeyPatch) -> None:
    original = sync.sync_group

    def hasty(shard: GroupShard, request: SyncGroupRequest, caller: Caller, now_ms: int) -> Outcome:
        group = shard.groups.get(request.group_id)
        if isinstance(group, ClassicGroup) and group.state is State.COMPLETING_REBALANCE:
            member = group.members.get(request.member_id)
            if member is not None and group.leader_id != member.member_id:
                return answer(caller, sync_answer(group, member.assignment))
        return original(shard, request, caller, now_ms)

    patch.setattr(sync, "sync_group", hasty)


def sessions_that_never_end(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(expiry.ALARMS, Alarm.SESSION, lambda *_: None)
    patch.setitem(expiry.ALARMS, Alarm.CONSUMER_SESSION, lambda *_: None)


def sessions_that_heartbeats_do_not_keep(patch: pytest.MonkeyPatch) -> None:
    original = Deadlines.start

    def deaf(self: Deadlines, timer: Any, deadline_ms: int) -> None:
        if timer.alarm not in (Alarm.SESSION, Alarm.CONSUMER_SESSION) or not timer.running:
            original(self, timer, deadline_ms)

    patch.setattr(Deadlines, "start", deaf)


def tombstones_that_are_not_replayed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OffsetStore, "remove", lambda *_: None)


def members_that_are_not_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ConsumerGroup, "remove", lambda *_: None)


def generations_that_do_not_rise(patch: pytest.MonkeyPatch) -> None:
    original = ClassicGroup.next_generation

    def stuck(self: ClassicGroup, now_ms: int) -> None:
        self.generation -= self.generation > 1
        original(self, now_ms)

    patch.setattr(ClassicGroup, "next_generation", stuck)


def assignments_that_are_not_written(patch: pytest.MonkeyPatch) -> None:
    original = sync._assign

    def forgetful(shard: GroupShard, group: ClassicGroup, request: SyncGroupRequest, decision: Any) -> None:
        original(shard, group, request, decision)
        record = decision.records.pop()
        group.adopt(record.value)

    patch.setattr(sync, "_assign", forgetful)


def partitions_that_are_given_away_before_they_are_given_up(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ConsumerGroup, "owner", lambda *_: None)


def members_that_need_not_give_up(patch: pytest.MonkeyPatch) -> None:
    original = ConsumerMember.changed

    def careless(self: ConsumerMember, **changes: Any) -> ConsumerMember:
        if "revoking" in changes:
            changes["revoking"] = NOTHING
        return original(self, **changes)

    patch.setattr(ConsumerMember, "changed", careless)


def fenced_members_that_leave_the_epoch_as_it_is(patch: pytest.MonkeyPatch) -> None:
    original = leave.epoch_record
    patch.setattr(leave, "epoch_record", lambda group_id, epoch, hash_: original(group_id, epoch - 1, hash_))


def answers_before_they_are_safe(patch: pytest.MonkeyPatch) -> None:
    def hasty(self: Runtime[Any, Any]) -> None:
        while self._waiting and not self._running:
            _, answer, outcome = self._waiting.popleft()
            answer(outcome)

    patch.setattr(Runtime, "_answer_committed", hasty)


def joins_that_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    original = ClassicGroup.stop_waiting_to_join

    def absent_minded(self: ClassicGroup, member: Any) -> Caller | None:
        caller = original(self, member)
        return None if self.state is State.COMPLETING_REBALANCE and self.leader_id != member.member_id else caller

    patch.setattr(ClassicGroup, "stop_waiting_to_join", absent_minded)


MUTANTS: dict[Mutate, int] = {
    commits_of_old_generations: CLASSIC,
    repeated_commits_of_old_generations: CLASSIC,
    late_commits_of_what_others_own: CONSUMER,
    repeated_commits_to_the_wrong_places: CLASSIC,
    sync_before_the_leader: CLASSIC,
    sessions_that_never_end: CLASSIC,
    sessions_that_heartbeats_do_not_keep: CLASSIC,
    generations_that_do_not_rise: CLASSIC,
    assignments_that_are_not_written: CLASSIC,
    joins_that_are_forgotten: CLASSIC,
    tombstones_that_are_not_replayed: CONSUMER,
    members_that_are_not_forgotten: CONSUMER,
    partitions_that_are_given_away_before_they_are_given_up: CONSUMER,
    members_that_need_not_give_up: CONSUMER,
    fenced_members_that_leave_the_epoch_as_it_is: CONSUMER,
    answers_before_they_are_safe: BOTH,
}


@pytest.mark.parametrize("mutate", MUTANTS, ids=lambda mutate: mutate.__name__)
def test_the_simulation_finds(mutate: Mutate, monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch)

    for seed in range(MUTANTS[mutate], 3 * SEEDS, 3):
        try:
            run(seed)
        except Violation:
            return
    pytest.fail(f"the mutant survived {SEEDS} worlds")
