"""Heartbeat (key 12), v0-v4. v3: static members (KIP-345)."""

from __future__ import annotations

from tidelog.broker.group_calls import GroupHandler
from tidelog.broker.group_coordinator import GroupCoordinator
from tidelog.groups.classic.heartbeat import heartbeat
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def heartbeat_handler(groups: GroupCoordinator) -> GroupHandler[HeartbeatRequest]:
    return GroupHandler(groups, heartbeat, _refused)


def _refused(request: HeartbeatRequest, code: ErrorCode) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=code)
