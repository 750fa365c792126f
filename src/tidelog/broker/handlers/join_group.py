"""JoinGroup (key 11), v0-v9. v4: a member gets its id first (KIP-394). v5: static members (KIP-345). v8: reasons
(KIP-800). v9: skipped assignment (KIP-814).
"""

from __future__ import annotations

from tidelog.broker.group_calls import GroupHandler
from tidelog.broker.group_coordinator import GroupCoordinator
from tidelog.groups.classic.join import join_group
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse


def join_group_handler(groups: GroupCoordinator) -> GroupHandler[JoinGroupRequest]:
    return GroupHandler(groups, join_group, _refused)


def _refused(request: JoinGroupRequest, code: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=code, member_id=request.member_id)
