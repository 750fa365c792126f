"""How a classic group gets from one generation to the next: ask all to join, wait, choose leader and protocol.

Called by the commands and alarms of this folder; each function goes as far as it can now and sets a timer for the rest.
"""

from __future__ import annotations

from tidelog.groups.calls import Caller, Decision
from tidelog.groups.classic.answers import join_answer, join_error, sync_error
from tidelog.groups.classic.group import UNKNOWN_MEMBER, ClassicGroup, Member
from tidelog.groups.classic.states import LEGAL_MOVES, State
from tidelog.groups.records import group_metadata
from tidelog.groups.shard import GroupShard
from tidelog.model.errors import ErrorCode


def rebalance_or_complete(shard: GroupShard, group: ClassicGroup, decision: Decision) -> None:
    """Something changed: begin a rebalance, or see whether it was what the one under way waits for."""
    if State.PREPARING_REBALANCE in LEGAL_MOVES[group.state]:
        prepare(shard, group, decision)
    else:
        complete_if_all_joined(shard, group, decision)


def prepare(shard: GroupShard, group: ClassicGroup, decision: Decision) -> None:
    """Begin a rebalance: from now on heartbeats tell the members to join again."""
    if group.state is State.COMPLETING_REBALANCE:
        for member in group.members.values():
            member.assignment = b""
            _answer_sync(shard, member, ErrorCode.REBALANCE_IN_PROGRESS, decision)
    group.unsynced.clear()
    shard.deadlines.stop(group.sync_timer)
    initial = group.state is State.EMPTY
    group.move(State.PREPARING_REBALANCE, decision.now_ms)
    if initial:
        # The first member waits a little for others, so that a group that starts does not rebalance once for each.
        delay_ms = shard.settings.initial_rebalance_delay_ms
        group.joined_in_delay = False
        group.delay_remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        if delay_ms > 0:
            shard.deadlines.start(group.join_timer, decision.now_ms + delay_ms)
        else:
            complete(shard, group, decision)
    elif group.all_joined:
        complete(shard, group, decision)
    else:
        shard.deadlines.start(group.join_timer, decision.now_ms + group.rebalance_timeout_ms)


def complete_if_all_joined(shard: GroupShard, group: ClassicGroup, decision: Decision) -> None:
    """End the waiting for members early when there is none to wait for; never the initial delay."""
    if group.state is State.PREPARING_REBALANCE and group.previous is not State.EMPTY and group.all_joined:
        complete(shard, group, decision)


def end_initial_delay(shard: GroupShard, group: ClassicGroup, decision: Decision) -> None:
    """The delay of an empty group is over: wait once more if somebody came in the meantime, else go on."""
    if not group.joined_in_delay or group.delay_remaining_ms == 0:
        complete(shard, group, decision)
        return
    delay_ms = min(shard.settings.initial_rebalance_delay_ms, group.delay_remaining_ms)
    group.joined_in_delay = False
    group.delay_remaining_ms -= delay_ms
    shard.deadlines.start(group.join_timer, decision.now_ms + delay_ms)


def complete(shard: GroupShard, group: ClassicGroup, decision: Decision) -> None:
    """End the joining: who has not come is out, except static members, whose session decides; the rest are told."""
    shard.deadlines.stop(group.join_timer)
    for member in list(group.members.values()):
        if member.joining is None and member.instance_id is None:
            group.remove(member.member_id)
            shard.deadlines.stop(member.session)
    if not group.elect_joined_leader() and group.members:
        # Only static members are left, and none came: their sessions will end this.
        shard.deadlines.start(group.join_timer, decision.now_ms + group.rebalance_timeout_ms)
        return
    group.next_generation(decision.now_ms)
    if group.state is State.EMPTY:
        decision.records.append(group_metadata(group.group_id, group.to_value({}, decision.now_ms)))
        return
    for member in group.members.values():
        caller = group.stop_waiting_to_join(member)
        if caller is not None:
            decision.reply(caller, join_answer(group, member.member_id, caller.version))
        member.is_new = False
        restart_session(shard, member, decision.now_ms)
        group.unsynced.add(member.member_id)
    shard.deadlines.start(group.sync_timer, decision.now_ms + group.rebalance_timeout_ms)


def remove_member(shard: GroupShard, group: ClassicGroup, member: Member, decision: Decision) -> None:
    """Take a member out. If it waits to join it is told to begin anew: perhaps it lives and was only slow."""
    shard.deadlines.stop(member.session)
    caller = group.stop_waiting_to_join(member)
    if caller is not None:
        decision.reply(caller, join_error(UNKNOWN_MEMBER, ErrorCode.UNKNOWN_MEMBER_ID, caller.version))
    _answer_sync(shard, member, ErrorCode.UNKNOWN_MEMBER_ID, decision)
    group.remove(member.member_id)


def fence(group: ClassicGroup, member: Member, decision: Decision) -> None:
    """Tell a static member that waits that another process has taken its place."""
    joining = group.stop_waiting_to_join(member)
    if joining is not None:
        decision.reply(joining, join_error(member.member_id, ErrorCode.FENCED_INSTANCE_ID, joining.version))
    if member.syncing is not None:
        decision.reply(member.syncing, sync_error(ErrorCode.FENCED_INSTANCE_ID))
        member.syncing = None


def restart_session(shard: GroupShard, member: Member, now_ms: int) -> None:
    """A sign of life."""
    shard.deadlines.start(member.session, now_ms + member.session_timeout_ms)


def wait_to_join(group: ClassicGroup, member: Member, caller: Caller, decision: Decision) -> None:
    """Let a member wait for the end of the rebalance. If it asked before, nobody listens there any more: answer it."""
    earlier = group.stop_waiting_to_join(member)
    if earlier is not None and earlier.waiter != caller.waiter:
        decision.reply(earlier, join_error(member.member_id, ErrorCode.REBALANCE_IN_PROGRESS, earlier.version))
    group.wait_to_join(member, caller)


def _answer_sync(shard: GroupShard, member: Member, error: ErrorCode, decision: Decision) -> None:
    if member.syncing is not None:
        decision.reply(member.syncing, sync_error(error))
        member.syncing = None
        restart_session(shard, member, decision.now_ms)
