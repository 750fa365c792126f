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
    member = None if group is None else group.members.get(timer.member_id)
    if group is None or member is None or member.waits:
        return
    remove_member(shard, group, member, decision)
    if group.state is not State.PREPARING_REBALANCE:
        rebalance_or_complete(shard, group, decision)
    elif group.all_joined:
        complete(shard, group, decision)


def pending_member_expired(shard: GroupShard, timer: Timer, decision: Decision) -> None:
    """Someone was given an id and never joined with it; a rebalance waits for it no more."""
    group = _group(shard, timer)
    if group is None:
        return
    group.pending.pop(timer.member_id, None)
    if group.state is State.PREPARING_REBALANCE and group.all_joined:
        complete(shard, group, decision)


def join_expired(shard: GroupShard, timer: Timer, decision: Decision) -> None:
    """Members had their time to join."""
    group = _group(shard, timer)
    if group is None:
        return
    assert group.state is State.PREPARING_REBALANCE
    if group.previous is State.EMPTY:
        end_initial_delay(shard, group, decision)
    else:
        complete(shard, group, decision)


def sync_expired(shard: GroupShard, timer: Timer, decision: Decision) -> None:
    """Members that never asked for their assignment are out, and the others share what they would have had."""
    group = _group(shard, timer)
    if group is None:
        return
    assert group.state in (State.COMPLETING_REBALANCE, State.STABLE) and group.unsynced
    for member_id in sorted(group.unsynced):
        remove_member(shard, group, group.members[member_id], decision)
    prepare(shard, group, decision)


def _group(shard: GroupShard, timer: Timer) -> ClassicGroup | None:
    """The group of a timer; None when it was to become a classic group and that could not be written."""
    group = shard.groups.get(timer.group_id)
    return group if isinstance(group, ClassicGroup) else None
