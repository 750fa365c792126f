"""What happens to consumer groups when a deadline passes."""

from __future__ import annotations

from tidelog.groups.calls import Decision
from tidelog.groups.consumer.group import ConsumerGroup
from tidelog.groups.consumer.leave import fence
from tidelog.groups.consumer.member import ConsumerMember, MemberState
from tidelog.groups.deadlines import Timer
from tidelog.groups.shard import GroupShard


def member_expired(shard: GroupShard, timer: Timer, decision: Decision) -> None:
    """A member was silent for too long, or spoke the classic protocol and did not join or sync in time."""
    found = _find(shard, timer)
    if found is not None:
        group, member = found
        fence(shard, group, [member], decision)


def revocation_expired(shard: GroupShard, timer: Timer, decision: Decision) -> None:
    """A member did not give up partitions in the time it asked for: others wait for them."""
    found = _find(shard, timer)
    if found is not None and found[1].state is MemberState.UNREVOKED:
        group, member = found
        fence(shard, group, [member], decision)


def _find(shard: GroupShard, timer: Timer) -> tuple[ConsumerGroup, ConsumerMember] | None:
    shard.member_timers.pop((timer.alarm, timer.group_id, timer.member_id), None)
    group = shard.groups.get(timer.group_id)
    if not isinstance(group, ConsumerGroup) or timer.member_id not in group.members:
        return None
    return group, group.members[timer.member_id]
