"""OffsetFetch (key 9), v1-v10: how far groups have come, in some partitions or in all.

A request from v8 on asks for several groups, which may live in several shards: the edge takes it apart with
`groups_asked`, submits `fetch_offsets` to the shard of each group, and puts the parts together with `fetch_response`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from tidelog.groups.consumer.group import ConsumerGroup
from tidelog.groups.offsets.store import INVALID_OFFSET, CommittedOffset
from tidelog.groups.records import Record
from tidelog.groups.shard import GroupShard
from tidelog.machine.runtime import Result
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID, TopicId
from tidelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

# From this version on an error is told once for the whole response; before, for each partition.
TOP_LEVEL_ERROR_VERSION: Final = 2
# From this version on a request asks for several groups.
SEVERAL_GROUPS_VERSION: Final = 8
# From this version on topics are named by their id.
TOPIC_ID_VERSION: Final = 10


def groups_asked(request: OffsetFetchRequest, version: int) -> list[OffsetFetchRequestGroup]:
    """The groups of a request of any version."""
    if version >= SEVERAL_GROUPS_VERSION:
        return request.groups
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    return [OffsetFetchRequestGroup(request.group_id, topics=topics)]


def fetch_offsets(
    shard: GroupShard, asked: OffsetFetchRequestGroup, version: int, *, require_stable: bool
) -> Result[Record, OffsetFetchResponseGroup]:
    """The committed offsets of one group. With `require_stable`, none that an open transaction may still move."""
    return Result((), _fetch(shard, asked, version, require_stable))


def refuse_group(asked: OffsetFetchRequestGroup, error: ErrorCode) -> OffsetFetchResponseGroup:
    """The part of an answer for a group whose coordinator could not be asked."""
    return OffsetFetchResponseGroup(asked.group_id, error_code=error)


def fetch_response(
    request: OffsetFetchRequest, groups: Sequence[OffsetFetchResponseGroup], version: int
) -> OffsetFetchResponse:
    """Put the parts together as a version has them."""
    if version >= SEVERAL_GROUPS_VERSION:
        return OffsetFetchResponse(groups=list(groups))
    (group,) = groups
    if group.error_code != ErrorCode.NONE and version < TOP_LEVEL_ERROR_VERSION:
        topics = [
            OffsetFetchResponseTopic(
                topic.name,
                [
                    OffsetFetchResponsePartition(index, INVALID_OFFSET, error_code=group.error_code)
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics or ()
        ]
        return OffsetFetchResponse(topics=topics)
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                topic.name,
                [
                    OffsetFetchResponsePartition(
                        partition.partition_index,
                        partition.committed_offset,
                        partition.committed_leader_epoch,
                        partition.metadata,
                        partition.error_code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )


def _fetch(
    shard: GroupShard, asked: OffsetFetchRequestGroup, version: int, require_stable: bool
) -> OffsetFetchResponseGroup:
    error = _check_member(shard, asked)
    if error is not ErrorCode.NONE:
        return refuse_group(asked, error)
    wanted = _everything(shard, asked.group_id) if asked.topics is None else asked.topics
    topics: list[OffsetFetchResponseTopics] = []
    for topic in wanted:
        name: str | None = topic.name
        topic_id = topic.topic_id
        if version >= TOPIC_ID_VERSION:
            name, topic_id = _identify(shard, topic)
            if asked.topics is None and topic_id == ZERO_UUID:
                continue  # The topic is gone; it has no name in this version.
        if name is None:
            partitions = [_partition(index, None, ErrorCode.UNKNOWN_TOPIC_ID) for index in topic.partition_indexes]
        else:
            partitions = [
                _look_up(shard, asked.group_id, name, topic_id, index, require_stable)
                for index in topic.partition_indexes
            ]
        topics.append(OffsetFetchResponseTopics(topic.name, topic_id, partitions))
    return OffsetFetchResponseGroup(asked.group_id, topics)


def _check_member(shard: GroupShard, asked: OffsetFetchRequestGroup) -> ErrorCode:
    """Members of consumer groups say who they are, so that one that was fenced does not read where to go on."""
    group = shard.groups.get(asked.group_id)
    if not isinstance(group, ConsumerGroup) or (asked.member_id is None and asked.member_epoch < 0):
        return ErrorCode.NONE
    member = group.members.get(asked.member_id or "")
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if member.epoch == asked.member_epoch:
        return ErrorCode.NONE
    return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION


def _everything(shard: GroupShard, group_id: str) -> Iterable[OffsetFetchRequestTopics]:
    for topic, partitions in shard.offsets.by_group.get(group_id, {}).items():
        yield OffsetFetchRequestTopics(name=topic, partition_indexes=list(partitions))


def _identify(shard: GroupShard, topic: OffsetFetchRequestTopics) -> tuple[str | None, TopicId]:
    """Name and id of a topic that is known by one of them."""
    image = shard.image.topic(topic.name) if topic.name else shard.image.topic_by_id(topic.topic_id)
    return (None, topic.topic_id) if image is None else (image.name, image.topic_id)


def _look_up(
    shard: GroupShard, group_id: str, topic: str, topic_id: TopicId, partition: int, require_stable: bool
) -> OffsetFetchResponsePartitions:
    if require_stable and shard.offsets.is_pending(group_id, topic, partition):
        return _partition(partition, None, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    committed = shard.offsets.get(group_id, topic, partition)
    if committed is not None and ZERO_UUID not in (committed.topic_id, topic_id) and committed.topic_id != topic_id:
        committed = None  # An earlier topic of the same name.
    return _partition(partition, committed, ErrorCode.NONE)


def _partition(index: int, committed: CommittedOffset | None, error: ErrorCode) -> OffsetFetchResponsePartitions:
    if committed is None:
        return OffsetFetchResponsePartitions(index, INVALID_OFFSET, error_code=error)
    return OffsetFetchResponsePartitions(index, committed.offset, committed.leader_epoch, committed.metadata)
