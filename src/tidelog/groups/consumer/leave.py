"""Members of consumer groups that go: because they say so, are silent, or do not give up what they must."""

from __future__ import annotations

from collections.abc import Collection

from tidelog.groups.calls import Decision
from tidelog.groups.consumer.assignment import NOTHING
from tidelog.groups.consumer.group import ConsumerGroup
from tidelog.groups.consumer.member import LEFT_FOR_A_WHILE, ConsumerMember
from tidelog.groups.consumer.migration import can_downgrade, downgrade
from tidelog.groups.consumer.records import current_record, epoch_record, member_tombstones
from tidelog.groups.consumer.sessions import MEMBER_ALARMS, stop
from tidelog.groups.consumer.subscription import GroupAfter
from tidelog.groups.shard import GroupShard
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


def leave(
    shard: GroupShard, request: ConsumerGroupHeartbeatRequest, decision: Decision
) -> ConsumerGroupHeartbeatResponse:
    """Leave for good, or as a static member for a while: its partitions then wait for it until its session ends."""
    group = shard.groups.get(request.group_id)
    if not isinstance(group, ConsumerGroup):
        problem = "not found" if group is None else "is not a consumer group"
        raise ProtocolError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} {problem}.")
    member = known_member(group, request.member_id, request.instance_id)
    if request.member_epoch == LEFT_FOR_A_WHILE:
        away = member.changed(epoch=LEFT_FOR_A_WHILE, revoking=NOTHING)
        decision.records.append(current_record(group.group_id, away))
    else:
        fence(shard, group, [member], decision)
    return ConsumerGroupHeartbeatResponse(member_id=member.member_id, member_epoch=request.member_epoch)


def known_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    """The member that says it is one."""
    if instance_id is None:
        member = group.members.get(member_id)
        if member is None:
            raise ProtocolError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}."
            )
        return member
    member = group.static_member(instance_id)
    if member is None:
        raise ProtocolError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        raise ProtocolError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {member.member_id}.",
        )
    return member


def fence(shard: GroupShard, group: ConsumerGroup, gone: Collection[ConsumerMember], decision: Decision) -> None:
    """Take members out: what they had is free, and the group goes on without them in a new epoch."""
    names = {member.member_id for member in gone}
    for member_id in sorted(names):
        for alarm in MEMBER_ALARMS:
            stop(shard, alarm, group.group_id, member_id)
    rest = {name: member for name, member in group.members.items() if name not in names}
    if can_downgrade(shard, rest):
        downgrade(shard, group, rest, decision)
        return
    for member_id in sorted(names):
        decision.records += member_tombstones(group.group_id, member_id)
    after = GroupAfter(group, rest, shard.image)
    decision.records += after.forgotten()
    decision.records.append(epoch_record(group.group_id, group.epoch + 1, after.metadata_hash()))
