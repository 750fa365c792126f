"""OffsetCommit (key 8), v2-v10. v7: static members (KIP-345). v9: consumer groups (KIP-848). v10: topic ids."""

from __future__ import annotations

from tidelog.broker.group_calls import GroupHandler
from tidelog.broker.group_coordinator import GroupCoordinator
from tidelog.groups.offsets.commit import commit_offsets
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)


def offset_commit_handler(groups: GroupCoordinator) -> GroupHandler[OffsetCommitRequest]:
    return GroupHandler(groups, commit_offsets, _refused)


def _refused(request: OffsetCommitRequest, code: ErrorCode) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                topic.name,
                topic.topic_id,
                [OffsetCommitResponsePartition(partition.partition_index, code) for partition in topic.partitions],
            )
            for topic in request.topics
        ]
    )
