"""How a consumer group goes on when a member speaks: member, epoch, target, and then what the member has.

Shared by heartbeats and by JoinGroup of members that speak the classic protocol.
"""

from __future__ import annotations

from tidelog.groups.calls import Decision
from tidelog.groups.consumer.assignment import NOTHING, Assignment
from tidelog.groups.consumer.group import ConsumerGroup, Refresh
from tidelog.groups.consumer.member import ConsumerMember
from tidelog.groups.consumer.reconcile import Goal, reconcile
from tidelog.groups.consumer.records import (
    current_record,
    epoch_record,
    member_tombstones,
    metadata_record,
    partition_metadata_tombstone,
    target_record,
)
from tidelog.groups.consumer.sessions import watch_revocation
from tidelog.groups.consumer.subscription import GroupAfter
from tidelog.groups.consumer.target import new_target, topic_ids
from tidelog.groups.shard import GroupShard
from tidelog.model.ids import TopicId


def replace_static(group: ConsumerGroup, holder: ConsumerMember, member_id: str, decision: Decision) -> ConsumerMember:
    """A static member comes back under a new id: it gets all that its predecessor had."""
    member = holder.changed(member_id=member_id, epoch=0, previous_epoch=0)
    decision.records += member_tombstones(group.group_id, holder.member_id)
    decision.records += [
        metadata_record(group.group_id, member),
        target_record(group.group_id, member_id, group.target.get(holder.member_id, NOTHING)),
        current_record(group.group_id, member),
    ]
    return member


def members_with(group: ConsumerGroup, member: ConsumerMember) -> dict[str, ConsumerMember]:
    """The members as they will be with this one, which may have taken the place of a static one."""
    members = dict(group.members)
    replaced = group.static_member(member.instance_id)
    if replaced is not None:
        members.pop(replaced.member_id, None)
    members[member.member_id] = member
    return members


def advance(
    shard: GroupShard,
    group: ConsumerGroup,
    before: ConsumerMember,
    wanted: ConsumerMember,
    owned: Assignment | None,
    decision: Decision,
) -> ConsumerMember:
    """Take the group as far as a member's words allow; the member as it is then."""
    group_id = group.group_id
    if wanted is not before and wanted != before:
        decision.records.append(metadata_record(group_id, wanted))
    subscription_changed = wanted.topics != before.topics or wanted.pattern != before.pattern
    epoch, target_epoch = group.epoch, group.assignment_epoch
    target = group.target_of(wanted)
    after: GroupAfter | None = None
    stale = group.is_stale(decision.now_ms, shard.topics_version)
    if subscription_changed or stale or epoch == 0:
        after = GroupAfter(group, members_with(group, wanted), shard.image)
        epoch = _next_epoch(shard, after, subscription_changed, stale, decision)
    if epoch > group.assignment_epoch:
        after = after or GroupAfter(group, members_with(group, wanted), shard.image)
        default = shard.settings.consumer_assignors[0]
        targets, records = new_target(group, after.members, after.topics(), epoch, shard.image, default)
        decision.records += records
        target, target_epoch = targets.get(wanted.member_id, NOTHING), epoch
    if not subscription_changed and wanted.is_reconciled_to(target_epoch):
        return wanted
    reads = group.topics_of(wanted) if after is None else after.topics_of(wanted)
    replaced = group.static_member(wanted.instance_id)

    def owner(topic_id: TopicId, partition: int) -> str | None:
        found = group.owner(topic_id, partition)
        return wanted.member_id if replaced is not None and found == replaced.member_id else found

    goal = Goal(target_epoch, target, topic_ids(reads, shard.image), subscription_changed, owned, owner)
    member = reconcile(wanted, goal)
    if member != wanted:
        decision.records.append(current_record(group_id, member))
        watch_revocation(shard, group_id, member, decision.now_ms)
    return member


def _next_epoch(
    shard: GroupShard, after: GroupAfter, subscription_changed: bool, stale: bool, decision: Decision
) -> int:
    """Look at all that the group reads; its epoch rises when that is not what it was."""
    group, now_ms = after.group, decision.now_ms
    records = after.resolve([*after.resolved, *after.unresolved] if stale else after.unresolved, now_ms)
    records += after.forgotten()
    decision.records += records
    metadata_hash = after.metadata_hash()
    epoch = group.epoch
    if subscription_changed or records or epoch == 0 or metadata_hash != group.metadata_hash:
        epoch += 1
        if group.has_partition_metadata:
            decision.records.append(partition_metadata_tombstone(group.group_id))
        decision.records.append(epoch_record(group.group_id, epoch, metadata_hash))
    if stale:
        again_at_ms = now_ms + shard.settings.consumer_regex_refresh_interval_ms
        group.refresh = Refresh(again_at_ms, shard.topics_version, epoch)
    return epoch
