"""Heartbeat (key 12), v0-v4, for classic groups: a sign of life that learns whether a rebalance is on."""

from __future__ import annotations

from tidelog.groups.calls import Caller, Outcome, answer
from tidelog.groups.classic.group import ClassicGroup
from tidelog.groups.classic.states import State
from tidelog.groups.shard import GroupShard
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def heartbeat(shard: GroupShard, request: HeartbeatRequest, caller: Caller, now_ms: int) -> Outcome:
    """Keep the session of a member."""
    return answer(caller, HeartbeatResponse(error_code=sign_of_life(shard, request, now_ms)))


def sign_of_life(shard: GroupShard, request: HeartbeatRequest, now_ms: int) -> ErrorCode:
    """The same as a plain question: it writes nothing, and its answer waits for nothing but what came before it."""
    group = shard.groups.get(request.group_id)
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID if request.group_id else ErrorCode.INVALID_GROUP_ID
    assert isinstance(group, ClassicGroup)
    error = group.check_member(request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    member = group.members[request.member_id]
    shard.deadlines.start(member.session, now_ms + member.session_timeout_ms)
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is State.PREPARING_REBALANCE else ErrorCode.NONE
