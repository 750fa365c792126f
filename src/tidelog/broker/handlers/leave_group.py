"""LeaveGroup (key 13), v0-v5. v3: several members at once (KIP-345). v5: reasons (KIP-800)."""

from __future__ import annotations

from tidelog.broker.group_calls import GroupHandler
from tidelog.broker.group_coordinator import GroupCoordinator
from tidelog.groups.classic.leave import leave_group
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse


def leave_group_handler(groups: GroupCoordinator) -> GroupHandler[LeaveGroupRequest]:
    return GroupHandler(groups, leave_group, _refused)


def _refused(request: LeaveGroupRequest, code: ErrorCode) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=code)
