"""What each record of a consumer group does to the group. Called by the shard, live and at start-up alike.

Tombstones of what is not there are passed over: compaction may have removed what they delete.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tidelog.groups.consumer.assignment import NOTHING, assignment_of
from tidelog.groups.consumer.group import NO_ASSIGNMENT_EPOCH, ConsumerGroup, Resolved
from tidelog.groups.consumer.member import LEFT, ConsumerMember
from tidelog.wire.messages import group_records as messages
from tidelog.wire.schema import Message

# A group, and the key and value of a record on it. True when the group is gone with it.
Replay = Callable[[ConsumerGroup, Any, Any], bool]


def replay_epoch(
    group: ConsumerGroup,
    key: messages.ConsumerGroupMetadataKey,
    value: messages.ConsumerGroupMetadataValue | None,
) -> bool:
    if value is None:
        assert not group.members and not group.target, "a group goes after its members"
        return True
    group.epoch = value.epoch
    group.metadata_hash = value.metadata_hash
    return False


def replay_partition_metadata(
    group: ConsumerGroup,
    key: messages.ConsumerGroupPartitionMetadataKey,
    value: messages.ConsumerGroupPartitionMetadataValue | None,
) -> bool:
    group.has_partition_metadata = value is not None
    return False


def replay_member(
    group: ConsumerGroup,
    key: messages.ConsumerGroupMemberMetadataKey,
    value: messages.ConsumerGroupMemberMetadataValue | None,
) -> bool:
    if value is None:
        group.remove(key.member_id)
    else:
        group.put(_member(group, key.member_id).with_metadata(value))
    return False


def replay_target_epoch(
    group: ConsumerGroup,
    key: messages.ConsumerGroupTargetAssignmentMetadataKey,
    value: messages.ConsumerGroupTargetAssignmentMetadataValue | None,
) -> bool:
    group.assignment_epoch = NO_ASSIGNMENT_EPOCH if value is None else value.assignment_epoch
    return False


def replay_target(
    group: ConsumerGroup,
    key: messages.ConsumerGroupTargetAssignmentMemberKey,
    value: messages.ConsumerGroupTargetAssignmentMemberValue | None,
) -> bool:
    if value is None:
        group.target.pop(key.member_id, None)
    else:
        group.target[key.member_id] = assignment_of(value.topic_partitions)
    return False


def replay_current(
    group: ConsumerGroup,
    key: messages.ConsumerGroupCurrentMemberAssignmentKey,
    value: messages.ConsumerGroupCurrentMemberAssignmentValue | None,
) -> bool:
    if value is not None:
        group.put(_member(group, key.member_id).with_assignment(value))
    elif key.member_id in group.members:
        gone = group.members[key.member_id]
        group.put(gone.changed(epoch=LEFT, previous_epoch=LEFT, assigned=NOTHING, revoking=NOTHING, since={}))
    return False


def replay_pattern(
    group: ConsumerGroup,
    key: messages.ConsumerGroupRegularExpressionKey,
    value: messages.ConsumerGroupRegularExpressionValue | None,
) -> bool:
    if value is None:
        group.resolved.pop(key.regular_expression, None)
    else:
        resolved = Resolved(frozenset(value.topics), value.version, value.timestamp)
        group.resolved[key.regular_expression] = resolved
    return False


REPLAYS: Final[dict[type[Message], Replay]] = {
    messages.ConsumerGroupMetadataKey: replay_epoch,
    messages.ConsumerGroupPartitionMetadataKey: replay_partition_metadata,
    messages.ConsumerGroupMemberMetadataKey: replay_member,
    messages.ConsumerGroupTargetAssignmentMetadataKey: replay_target_epoch,
    messages.ConsumerGroupTargetAssignmentMemberKey: replay_target,
    messages.ConsumerGroupCurrentMemberAssignmentKey: replay_current,
    messages.ConsumerGroupRegularExpressionKey: replay_pattern,
}


def _member(group: ConsumerGroup, member_id: str) -> ConsumerMember:
    return group.members.get(member_id) or ConsumerMember(member_id)
