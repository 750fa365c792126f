"""The records of consumer groups: one for each thing that changes alone."""

from __future__ import annotations

from tidelog.groups.consumer.assignment import Assignment, as_lists
from tidelog.groups.consumer.group import ConsumerGroup, Resolved
from tidelog.groups.consumer.member import ConsumerMember
from tidelog.groups.records import GroupRecord, Record
from tidelog.wire.messages.group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartition,
)


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> GroupRecord:
    return GroupRecord(ConsumerGroupMetadataKey(group_id), ConsumerGroupMetadataValue(epoch, metadata_hash))


def metadata_record(group_id: str, member: ConsumerMember) -> GroupRecord:
    return GroupRecord(ConsumerGroupMemberMetadataKey(group_id, member.member_id), member.metadata_value())


def target_record(group_id: str, member_id: str, target: Assignment) -> GroupRecord:
    value = ConsumerGroupTargetAssignmentMemberValue(as_lists(target, TopicPartition))
    return GroupRecord(ConsumerGroupTargetAssignmentMemberKey(group_id, member_id), value)


def target_epoch_record(group_id: str, epoch: int) -> GroupRecord:
    value = ConsumerGroupTargetAssignmentMetadataValue(epoch)
    return GroupRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id), value)


def current_record(group_id: str, member: ConsumerMember) -> GroupRecord:
    return GroupRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id, member.member_id), member.assignment_value())


def pattern_record(group_id: str, pattern: str, resolved: Resolved | None) -> GroupRecord:
    """The topics of a pattern; None when nobody subscribes to it any more."""
    value = None
    if resolved is not None:
        value = ConsumerGroupRegularExpressionValue(sorted(resolved.topics), resolved.version, resolved.timestamp_ms)
    return GroupRecord(ConsumerGroupRegularExpressionKey(group_id, pattern), value)


def partition_metadata_tombstone(group_id: str) -> GroupRecord:
    return GroupRecord(ConsumerGroupPartitionMetadataKey(group_id), None)


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    """All that is written of a member, in the order that Kafka's own replay wants."""
    return [
        GroupRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id), None),
        GroupRecord(ConsumerGroupTargetAssignmentMemberKey(group_id, member_id), None),
        GroupRecord(ConsumerGroupMemberMetadataKey(group_id, member_id), None),
    ]


def group_tombstones(group: ConsumerGroup, members: list[str] | None = None) -> list[Record]:
    """All that is written of a group, with its members, or with others that were to take their place."""
    group_id = group.group_id
    names = list(group.members) if members is None else members
    records: list[Record] = []
    for kind in range(3):
        records += (member_tombstones(group_id, member_id)[kind] for member_id in names)
        if kind == 1:
            records.append(GroupRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id), None))
    records += (pattern_record(group_id, pattern, None) for pattern in group.resolved)
    if group.has_partition_metadata:
        records.append(partition_metadata_tombstone(group_id))
    return [*records, GroupRecord(ConsumerGroupMetadataKey(group_id), None)]
