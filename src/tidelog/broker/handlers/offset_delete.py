"""OffsetDelete (key 47), v0: offsets of partitions that nobody in the group subscribes to (KIP-496)."""

from __future__ import annotations

from tidelog.broker.group_calls import GroupHandler
from tidelog.broker.group_coordinator import GroupCoordinator
from tidelog.groups.offsets.delete import delete_offsets
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse


def offset_delete_handler(groups: GroupCoordinator) -> GroupHandler[OffsetDeleteRequest]:
    return GroupHandler(groups, lambda shard, request, caller, _: delete_offsets(shard, request, caller), _refused)


def _refused(request: OffsetDeleteRequest, code: ErrorCode) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error_code=code)
