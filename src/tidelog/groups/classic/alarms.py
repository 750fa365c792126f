"""What happens to classic groups when a deadline passes."""

from __future__ import annotations

from tidelog.groups.calls import Decision
from tidelog.groups.classic.group import ClassicGroup
from tidelog.groups.classic.rebalance import complete, end_initial_delay, prepare, rebalance_or_complete, remove_member
from tidelog.groups.classic.states import State
from tidelog.groups.deadlines import Timer
from tidelog.groups.shard import GroupShard


def session_expired(shard: GroupShard, timer: Timer, decision: Decision) -> None:
    """A member was silent for too long. One that waits for us need not speak: our answer begins its session anew."""
    group = _group(shard, timer)
    member = group.members[timer.member_id]
    if member.waits:
        return
    remove_member(shard, group, member, decision)
    if group.state is not State.PREPARING_REBALANCE:
        rebalance_or_complete(shard, group, decision)
    elif group.all_joined:
        complete(shard, group, decision)


def pending_member_expired(shard: GroupShard, timer: Timer, decision: Decision) -> None:
    """Someone was given an id and never joined with it; a rebalance waits for it no more."""
    group = _group(shard, timer)
    del group.pending[timer.member_id]
    if group.state is State.PREPARING_REBALANCE and group.all_joined:
        complete(shard, group, decision)


def join_expired(shard: GroupShard, timer: Timer, decision: Decision) -> None:
    """Members had their time to join."""
    group = _group(shard, timer)
    assert group.state is State.PREPARING_REBALANCE
    if group.previous is State.EMPTY:
        end_initial_delay(shard, group, decision)
    else:
        complete(shard, group, decision)


def sync_expired(shard: GroupShard, timer: Timer, decision: Decision) -> None:
    """Members that never asked for their assignment are out, and the others share what they would have had."""
    group = _group(shard, timer)
    assert group.state in (State.COMPLETING_REBALANCE, State.STABLE) and group.unsynced
    for member_id in sorted(group.unsynced):
        remove_member(shard, group, group.members[member_id], decision)
    prepare(shard, group, decision)


def _group(shard: GroupShard, timer: Timer) -> ClassicGroup:
    group = shard.groups[timer.group_id]
    assert isinstance(group, ClassicGroup), "the timers of a group stop when it goes"
    return group
