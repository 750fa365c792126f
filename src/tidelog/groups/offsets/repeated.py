"""Offset commits that repeat themselves: the same partitions by the same member, only further on.

What was looked up for one is kept for the next as long as it holds, and those that came together are one command. It
takes what `commit.py` would commit without an error, and writes the same records; the rest it leaves to `commit.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tidelog.groups.offsets.commit import (
    GRANTED,
    TOPIC_ID_VERSION,
    Committer,
    check_committer,
    check_partition,
    show_life,
)
from tidelog.groups.records import GroupRecord, Record
from tidelog.groups.shard import GroupShard
from tidelog.machine.runtime import Result
from tidelog.metadata.image import TopicImage
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_TIMESTAMP, TopicId
from tidelog.wire.messages.group_records import OffsetCommitKey, OffsetCommitValue
from tidelog.wire.messages.offset_commit import OffsetCommitRequest


class Place(NamedTuple):
    """Where one offset of a commit goes, and what is said with it."""

    key: OffsetCommitKey
    leader_epoch: int
    metadata: str
    topic_id: TopicId


class RepeatedCommit:
    """All that requests which differ in their offsets alone have in common."""

    __slots__ = ("_images", "_metadata_length_max", "_places", "_request", "committer", "version")

    def __init__(self, version: int, request: OffsetCommitRequest) -> None:
        self.version = version
        self.committer = Committer.of(request)
        self._request = request
        self._metadata_length_max = max(
            (len(partition.committed_metadata or "") for topic in request.topics for partition in topic.partitions),
            default=0,
        )
        # The topics as they were when the places were looked up.
        self._images: list[TopicImage] = []
        self._places: list[Place] = []

    def places(self, shard: GroupShard) -> Sequence[Place] | None:
        """Where its offsets go, in their order; None when one of them cannot be committed."""
        if self._metadata_length_max > shard.settings.offset_metadata_bytes_max:
            return None
        known = iter(self._images)
        for topic in self._topics(shard):
            if topic is None or topic is not next(known, None):
                return self._look_up(shard)
        return self._places

    def expire_timestamp_ms(self, now_ms: int) -> int:
        retention_ms = self._request.retention_time_ms
        return NO_TIMESTAMP if retention_ms < 0 else now_ms + retention_ms

    def _topics(self, shard: GroupShard) -> list[TopicImage | None]:
        image, topics = shard.image, self._request.topics
        if self.version >= TOPIC_ID_VERSION:
            return [image.topics_by_id.get(topic.topic_id) for topic in topics]
        return [image.topic(topic.name) for topic in topics]

    def _look_up(self, shard: GroupShard) -> Sequence[Place] | None:
        images: list[TopicImage] = []
        places: list[Place] = []
        for topic, image in zip(self._request.topics, self._topics(shard), strict=True):
            for partition in topic.partitions:
                index, metadata = partition.partition_index, partition.committed_metadata or ""
                if image is None or check_partition(shard, image, ErrorCode.NONE, index, metadata):
                    self._images = []
                    return None
                key = OffsetCommitKey(self.committer.group_id, image.name, index)
                places.append(Place(key, partition.committed_leader_epoch, metadata, topic.topic_id))
            if image is not None:
                images.append(image)
        self._images, self._places = images, places
        return places


class CommitRun:
    """A command to submit: commits that came one behind the other. It takes those of one member at their front."""

    __slots__ = ("_commits", "_now_ms", "taken")

    def __init__(self, commits: Sequence[tuple[RepeatedCommit, Sequence[int]]], now_ms: int) -> None:
        """Each with its offsets."""
        self._commits = commits
        self._now_ms = now_ms
        # How many commits there are records of: from this one on they are for `commit_offsets`.
        self.taken = 0

    def __call__(self, shard: GroupShard) -> Result[Record, None]:
        first, now_ms = self._commits[0][0], self._now_ms
        committer, version = first.committer, first.version
        if check_committer(shard, committer, version) is not GRANTED:
            return Result((), None)
        show_life(shard, committer, now_ms)
        records: list[Record] = []
        for commit, offsets in self._commits:
            places = commit.places(shard)
            if places is None or commit.committer != committer or commit.version != version:
                break
            expire_ms = commit.expire_timestamp_ms(now_ms)
            for (key, leader_epoch, metadata, topic_id), offset in zip(places, offsets, strict=True):
                value = OffsetCommitValue(offset, leader_epoch, metadata, now_ms, expire_ms, topic_id)
                records.append(GroupRecord(key, value))
            self.taken += 1
        # However many they are: each commit counts alone.
        return Result(records, None, atomic=False)
