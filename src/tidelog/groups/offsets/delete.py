"""OffsetDelete (key 47), v0: forget how far a group has come in topics that no member reads (KIP-496)."""

from __future__ import annotations

from tidelog.groups.calls import Caller, Outcome, Reply, answer
from tidelog.groups.classic.group import ClassicGroup
from tidelog.groups.classic.states import State
from tidelog.groups.offsets.retention import is_subscribed
from tidelog.groups.records import Record, offset_tombstone
from tidelog.groups.shard import Group, GroupShard
from tidelog.machine.runtime import Result
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def delete_offsets(shard: GroupShard, request: OffsetDeleteRequest, caller: Caller, now_ms: int = 0) -> Outcome:
    """Delete offsets of a group in some partitions. What was never committed is deleted without complaint."""
    group = shard.groups.get(request.group_id)
    error = _check(request.group_id, group)
    if group is None or error is not ErrorCode.NONE:
        return answer(caller, OffsetDeleteResponse(error_code=error))
    records: list[Record] = []
    topics = [_delete(shard, group, topic, records) for topic in request.topics]
    return Result(records, (Reply(caller.waiter, OffsetDeleteResponse(topics=topics)),), atomic=False)


def _check(group_id: str, group: Group | None) -> ErrorCode:
    if not group_id:
        return ErrorCode.INVALID_GROUP_ID
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if isinstance(group, ClassicGroup) and group.state is not State.EMPTY and not group.is_consumers:
        # What members of another kind read cannot be known.
        return ErrorCode.NON_EMPTY_GROUP
    return ErrorCode.NONE


def _delete(
    shard: GroupShard, group: Group, topic: OffsetDeleteRequestTopic, records: list[Record]
) -> OffsetDeleteResponseTopic:
    subscribed = is_subscribed(group, topic.name)
    partitions = []
    for partition in topic.partitions:
        index = partition.partition_index
        if shard.image.partition(topic.name, index) is None:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else:
            error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else ErrorCode.NONE
        partitions.append(OffsetDeleteResponsePartition(index, error))
        known = shard.offsets.get(group.group_id, topic.name, index) is not None
        if error is ErrorCode.NONE and (known or shard.offsets.is_pending(group.group_id, topic.name, index)):
            records.append(offset_tombstone(group.group_id, topic.name, index))
    return OffsetDeleteResponseTopic(topic.name, partitions)
