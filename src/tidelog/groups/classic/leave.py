"""LeaveGroup (key 13), v0-v5, for classic groups. From v3 on several members at once, also static ones by instance id,
which is how an operator removes one that will not come back (KIP-345)."""

from __future__ import annotations

from typing import Final

from tidelog.groups.calls import Caller, Decision, Outcome, answer
from tidelog.groups.classic.group import UNKNOWN_MEMBER, ClassicGroup
from tidelog.groups.classic.rebalance import rebalance_or_complete, remove_member
from tidelog.groups.classic.states import State
from tidelog.groups.shard import GroupShard
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)

# From this version on a request names several members and each gets its own answer.
BATCH_VERSION: Final = 3


def leave_group(shard: GroupShard, request: LeaveGroupRequest, caller: Caller, now_ms: int) -> Outcome:
    """Leave at once, instead of when the session expires."""
    if not request.group_id:
        return answer(caller, LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
    identities = leaving(request, caller.version)
    decision = Decision(now_ms)
    group = shard.groups.get(request.group_id)
    if group is None:
        errors = [ErrorCode.UNKNOWN_MEMBER_ID for _ in identities]
    else:
        assert isinstance(group, ClassicGroup)
        errors = [_leave(shard, group, identity, decision) for identity in identities]
        if ErrorCode.NONE in errors and group.state is not State.EMPTY:
            rebalance_or_complete(shard, group, decision)
    decision.reply(caller, leave_answer(identities, errors, caller.version))
    return decision.outcome()


def leaving(request: LeaveGroupRequest, version: int) -> list[MemberIdentity]:
    """Who leaves: before v3 only the one who asks."""
    return request.members if version >= BATCH_VERSION else [MemberIdentity(request.member_id)]


def leave_answer(identities: list[MemberIdentity], errors: list[ErrorCode], version: int) -> LeaveGroupResponse:
    if version < BATCH_VERSION:
        return LeaveGroupResponse(error_code=errors[0])
    members = [
        MemberResponse(identity.member_id, identity.group_instance_id, error)
        for identity, error in zip(identities, errors, strict=True)
    ]
    return LeaveGroupResponse(members=members)


def _leave(shard: GroupShard, group: ClassicGroup, identity: MemberIdentity, decision: Decision) -> ErrorCode:
    member_id = identity.member_id
    pending = group.pending.pop(member_id, None)
    if pending is not None:
        shard.deadlines.stop(pending)
        return ErrorCode.NONE
    if member_id == UNKNOWN_MEMBER:
        member_id = group.static_members.get(identity.group_instance_id or "", UNKNOWN_MEMBER)
    error = group.check_member(member_id, identity.group_instance_id)
    if error is ErrorCode.NONE:
        remove_member(shard, group, group.members[member_id], decision)
    return error
