"""JoinGroup and SyncGroup responses, as each version can express them."""

from __future__ import annotations

from typing import Final

from tidelog.groups.classic.group import NO_GENERATION, ClassicGroup
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.join_group import JoinGroupResponse
from tidelog.wire.messages.sync_group import SyncGroupResponse

# From this version on a protocol that is not chosen is null; before, it is an empty string.
NULL_PROTOCOL_VERSION: Final = 7


def join_error(member_id: str, error: ErrorCode, version: int) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=error,
        generation_id=NO_GENERATION,
        protocol_name=None if version >= NULL_PROTOCOL_VERSION else "",
        member_id=member_id,
    )


def join_answer(
    group: ClassicGroup, member_id: str, version: int, *, leader: str | None = None, skip_assignment: bool = False
) -> JoinGroupResponse:
    """What a member learns of its generation; the leader alone learns who the others are.

    `leader` names another leader than the group's, so that the member does not think that it must assign.
    """
    leader = leader or group.leader_id or ""
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name or (None if version >= NULL_PROTOCOL_VERSION else ""),
        leader=leader,
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=group.subscriptions() if leader == member_id else [],
    )


def sync_error(error: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=error)


def sync_answer(group: ClassicGroup, assignment: bytes) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=assignment
    )
