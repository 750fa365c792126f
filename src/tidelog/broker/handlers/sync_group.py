"""SyncGroup (key 14), v0-v5. v3: static members (KIP-345). v5: the protocol is told (KIP-559)."""

from __future__ import annotations

from tidelog.broker.group_calls import GroupHandler
from tidelog.broker.group_coordinator import GroupCoordinator
from tidelog.groups.classic.sync import sync_group
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def sync_group_handler(groups: GroupCoordinator) -> GroupHandler[SyncGroupRequest]:
    return GroupHandler(groups, sync_group, _refused)


def _refused(request: SyncGroupRequest, code: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=code)
