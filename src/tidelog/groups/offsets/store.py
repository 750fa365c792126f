"""Committed offsets as replay makes them: those that count, and those that wait for the end of a transaction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeVar

import msgspec

from tidelog.model.ids import NO_TIMESTAMP, ZERO_UUID, Offset, ProducerId, TopicId
from tidelog.wire.messages.group_records import OffsetCommitValue

T = TypeVar("T")

INVALID_OFFSET: Final = Offset(-1)


class CommittedOffset(msgspec.Struct, frozen=True, gc=False):
    """How far a group has come in one partition."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    # Set by old clients that choose the retention themselves.
    expire_timestamp_ms: int = NO_TIMESTAMP
    topic_id: TopicId = ZERO_UUID
    # Where the commit stands in the log: between two commits the later counts, whenever it came to count.
    record_offset: int = -1

    @classmethod
    def of(cls, value: OffsetCommitValue, record_offset: int) -> CommittedOffset:
        return cls(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
            record_offset,
        )


# Topic -> partition -> offset.
TopicOffsets = dict[str, dict[int, CommittedOffset]]


class OffsetStore:
    """All offsets of one shard."""

    def __init__(self) -> None:
        self.by_group: dict[str, TopicOffsets] = {}
        self.pending: dict[ProducerId, dict[str, TopicOffsets]] = {}
        # Group -> topic -> partition -> producers whose transaction is open there.
        self.open: dict[str, dict[str, dict[int, set[ProducerId]]]] = {}
        # The groups that have an offset in a topic, pending or not: what its deletion touches.
        self.groups_by_topic: dict[str, set[str]] = {}

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        topics = self.by_group.get(group_id)
        partitions = None if topics is None else topics.get(topic)
        return None if partitions is None else partitions.get(partition)

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether a transaction that is open may move this offset."""
        topics = self.open.get(group_id)
        return topics is not None and partition in topics.get(topic, ())

    def has_pending(self, group_id: str) -> bool:
        return group_id in self.open

    def partitions_of(self, group_id: str) -> Iterator[tuple[str, int]]:
        """Each partition in which a group has an offset, pending or not, once."""
        committed = self.by_group.get(group_id, {})
        for topic, partitions in committed.items():
            for partition in partitions:
                yield topic, partition
        for topic, open_partitions in self.open.get(group_id, {}).items():
            for partition in open_partitions:
                if partition not in committed.get(topic, ()):
                    yield topic, partition

    def put(self, group_id: str, topic: str, partition: int, committed: CommittedOffset) -> None:
        _place(self.by_group, group_id, topic)[partition] = committed
        self.groups_by_topic.setdefault(topic, set()).add(group_id)

    def put_pending(
        self, producer_id: ProducerId, group_id: str, topic: str, partition: int, committed: CommittedOffset
    ) -> None:
        _place(self.pending.setdefault(producer_id, {}), group_id, topic)[partition] = committed
        _place(self.open, group_id, topic).setdefault(partition, set()).add(producer_id)
        self.groups_by_topic.setdefault(topic, set()).add(group_id)

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        """A tombstone: also what is pending there will not count any more."""
        _prune(self.by_group, group_id, topic, partition)
        open_here = self.open.get(group_id, {}).get(topic, {}).get(partition)
        for producer_id in open_here or ():
            offsets = self.pending[producer_id]
            _prune(offsets, group_id, topic, partition)
            if not offsets:
                del self.pending[producer_id]
        _prune(self.open, group_id, topic, partition)
        self._forget_topic(group_id, topic)

    def end_transaction(self, producer_id: ProducerId, committed: bool) -> None:
        """What a producer left pending counts from now on, or never."""
        for group_id, topics in self.pending.pop(producer_id, {}).items():
            for topic, partitions in topics.items():
                for partition, offset in partitions.items():
                    producers = self.open[group_id][topic][partition]
                    producers.discard(producer_id)
                    if not producers:
                        _prune(self.open, group_id, topic, partition)
                    before = self.get(group_id, topic, partition)
                    if committed and (before is None or offset.record_offset > before.record_offset):
                        self.put(group_id, topic, partition, offset)
                self._forget_topic(group_id, topic)

    def _forget_topic(self, group_id: str, topic: str) -> None:
        if topic in self.by_group.get(group_id, ()) or topic in self.open.get(group_id, ()):
            return
        groups = self.groups_by_topic.get(topic)
        if groups is not None:
            groups.discard(group_id)
            if not groups:
                del self.groups_by_topic[topic]


def _place(tree: dict[str, dict[str, dict[int, T]]], group_id: str, topic: str) -> dict[int, T]:
    topics = tree.get(group_id)
    if topics is None:
        topics = tree[group_id] = {}
    partitions = topics.get(topic)
    if partitions is None:
        partitions = topics[topic] = {}
    return partitions


def _prune(tree: dict[str, dict[str, dict[int, T]]], group_id: str, topic: str, partition: int) -> None:
    """Take out one partition and all that is empty without it."""
    topics = tree.get(group_id)
    partitions = None if topics is None else topics.get(topic)
    if topics is None or partitions is None:
        return
    partitions.pop(partition, None)
    if not partitions:
        del topics[topic]
        if not topics:
            del tree[group_id]
