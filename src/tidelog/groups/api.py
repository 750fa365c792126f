"""The commands on groups, by request: what the edge submits to the shard of the group that a request names.

    result = COMMANDS[type(request)](shard, request, caller, now_ms)

The result holds records to write and, to be given once they are committed, replies to this caller and to others that
waited. Requests on many groups are commands of their own: `offsets.fetch.fetch_offsets`, `admin.list_groups`,
`admin.describe_group`, `admin.delete_group`, `consumer.describe.describe_consumer_group`. Besides, the leader of a
shard submits `loading.loaded` first, `expiry.expire` whenever a deadline has passed, `offsets.retention.topics_deleted`
when topics are gone, and `offsets.commit.end_transaction` for the markers of transactions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tidelog.groups.calls import Caller, Outcome
from tidelog.groups.classic import heartbeat as classic_heartbeat
from tidelog.groups.classic import join as classic_join
from tidelog.groups.classic import leave as classic_leave
from tidelog.groups.classic import sync as classic_sync
from tidelog.groups.consumer import classic_members
from tidelog.groups.consumer.group import ConsumerGroup
from tidelog.groups.consumer.heartbeat import consumer_heartbeat
from tidelog.groups.offsets.commit import commit_offsets, commit_transaction_offsets
from tidelog.groups.offsets.delete import delete_offsets
from tidelog.groups.shard import GroupShard
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tidelog.wire.messages.heartbeat import HeartbeatRequest
from tidelog.wire.messages.join_group import JoinGroupRequest
from tidelog.wire.messages.leave_group import LeaveGroupRequest
from tidelog.wire.messages.offset_commit import OffsetCommitRequest
from tidelog.wire.messages.offset_delete import OffsetDeleteRequest
from tidelog.wire.messages.sync_group import SyncGroupRequest
from tidelog.wire.messages.txn_offset_commit import TxnOffsetCommitRequest
from tidelog.wire.schema import Request

Command = Callable[[GroupShard, Any, Caller, int], Outcome]


def join_group(shard: GroupShard, request: JoinGroupRequest, caller: Caller, now_ms: int) -> Outcome:
    group = shard.groups.get(request.group_id)
    if isinstance(group, ConsumerGroup) and group.members:
        return classic_members.join(shard, group, request, caller, now_ms)
    return classic_join.join_group(shard, request, caller, now_ms)


def sync_group(shard: GroupShard, request: SyncGroupRequest, caller: Caller, now_ms: int) -> Outcome:
    group = shard.groups.get(request.group_id)
    if isinstance(group, ConsumerGroup):
        return classic_members.sync(shard, group, request, caller, now_ms)
    return classic_sync.sync_group(shard, request, caller, now_ms)


def heartbeat(shard: GroupShard, request: HeartbeatRequest, caller: Caller, now_ms: int) -> Outcome:
    group = shard.groups.get(request.group_id)
    if isinstance(group, ConsumerGroup):
        return classic_members.heartbeat(shard, group, request, caller, now_ms)
    return classic_heartbeat.heartbeat(shard, request, caller, now_ms)


def sign_of_life(shard: GroupShard, request: HeartbeatRequest, now_ms: int) -> ErrorCode | None:
    """What to tell a member that beats; None when that is for `heartbeat` to decide."""
    if isinstance(shard.groups.get(request.group_id), ConsumerGroup):
        return None
    return classic_heartbeat.sign_of_life(shard, request, now_ms)


def leave_group(shard: GroupShard, request: LeaveGroupRequest, caller: Caller, now_ms: int) -> Outcome:
    group = shard.groups.get(request.group_id)
    if isinstance(group, ConsumerGroup):
        return classic_members.leave(shard, group, request, caller, now_ms)
    return classic_leave.leave_group(shard, request, caller, now_ms)


COMMANDS: Final[dict[type[Request], Command]] = {
    JoinGroupRequest: join_group,
    SyncGroupRequest: sync_group,
    HeartbeatRequest: heartbeat,
    LeaveGroupRequest: leave_group,
    OffsetCommitRequest: commit_offsets,
    TxnOffsetCommitRequest: commit_transaction_offsets,
    OffsetDeleteRequest: delete_offsets,
    ConsumerGroupHeartbeatRequest: consumer_heartbeat,
}
