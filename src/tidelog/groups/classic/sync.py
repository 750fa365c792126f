"""SyncGroup (key 14), v0-v5, for classic groups. The leader brings the assignment of all; the others wait for it.

The assignment is written before anyone hears of it, so that a coordinator that takes over knows the same.
"""

from __future__ import annotations

from typing import Final

from tidelog.groups.calls import Caller, Decision, Outcome, answer
from tidelog.groups.classic.answers import sync_answer, sync_error
from tidelog.groups.classic.group import ClassicGroup
from tidelog.groups.classic.rebalance import restart_session
from tidelog.groups.classic.states import State
from tidelog.groups.records import group_metadata
from tidelog.groups.shard import GroupShard
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.sync_group import SyncGroupRequest

# From this version on a member must say which protocol it believes was chosen (KIP-559).
PROTOCOL_VERSION: Final = 5


def check_sync(request: SyncGroupRequest, version: int) -> ErrorCode:
    """What is wrong with a request whatever the group."""
    if version >= PROTOCOL_VERSION and (request.protocol_type is None or request.protocol_name is None):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE if request.group_id else ErrorCode.INVALID_GROUP_ID


def sync_group(shard: GroupShard, request: SyncGroupRequest, caller: Caller, now_ms: int) -> Outcome:
    """Ask for one's assignment, and as the leader bring everyone's."""
    error = check_sync(request, caller.version)
    if error is not ErrorCode.NONE:
        return answer(caller, sync_error(error))
    group = shard.groups.get(request.group_id)
    if group is None:
        return answer(caller, sync_error(ErrorCode.UNKNOWN_MEMBER_ID))
    assert isinstance(group, ClassicGroup)
    error = _check(group, request)
    if error is not ErrorCode.NONE:
        return answer(caller, sync_error(error))
    group.unsynced.discard(request.member_id)
    if not group.unsynced:
        shard.deadlines.stop(group.sync_timer)
    member = group.members[request.member_id]
    if group.state is State.STABLE:
        return answer(caller, sync_answer(group, member.assignment))
    decision = Decision(now_ms)
    if member.syncing is not None and member.syncing.waiter != caller.waiter:
        # It asked before and nobody listens there any more.
        decision.reply(member.syncing, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
    member.syncing = caller
    if group.leader_id == member.member_id:
        _assign(shard, group, request, decision)
    return decision.outcome()


def _check(group: ClassicGroup, request: SyncGroupRequest) -> ErrorCode:
    error = group.check_member(request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if _differs(request.protocol_type, group.protocol_type) or _differs(request.protocol_name, group.protocol_name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is State.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _differs(given: str | None, ours: str | None) -> bool:
    return given is not None and ours is not None and given != ours


def _assign(shard: GroupShard, group: ClassicGroup, request: SyncGroupRequest, decision: Decision) -> None:
    """Write what the leader decided and answer all who wait. Replaying the record makes the group stable."""
    given = {each.member_id: bytes(each.assignment) for each in request.assignments}
    decision.records.append(group_metadata(group.group_id, group.to_value(given, decision.now_ms)))
    for member in group.members.values():
        if member.syncing is not None:
            decision.reply(member.syncing, sync_answer(group, given.get(member.member_id, b"")))
            member.syncing = None
            restart_session(shard, member, decision.now_ms)
