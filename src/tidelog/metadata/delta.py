"""What changed between two images of the cluster, so that a broker acts on a change and never scans the whole.

Made by `metadata/replay.py` from the records it applied, or by `difference` when a whole snapshot was loaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeVar

import msgspec

from tidelog.metadata.image import (
    ClusterImage,
    ConfigResource,
    PartitionRegistration,
    QuotaEntity,
    TopicImage,
)
from tidelog.model.ids import NodeId, PartitionIndex, TopicId, TopicName, TopicPartition

K = TypeVar("K")
V = TypeVar("V")


class PartitionChange(NamedTuple):
    """One partition that appeared (no `before`), changed, or went (no `after`)."""

    topic: TopicName
    topic_id: TopicId
    partition: PartitionIndex
    before: PartitionRegistration | None
    after: PartitionRegistration | None

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class LocalChanges(NamedTuple):
    """What one broker must do with its replicas: stop and delete first, then lead, then follow."""

    remove: tuple[PartitionChange, ...]
    lead: tuple[PartitionChange, ...]
    follow: tuple[PartitionChange, ...]


class Delta(msgspec.Struct, frozen=True):
    """The step from image `before` to image `after`."""

    before: ClusterImage
    after: ClusterImage
    topics_created: Mapping[TopicId, TopicImage]
    topics_removed: Mapping[TopicId, TopicImage]
    # Partitions new or different in topics that exist in both images.
    partitions_changed: Mapping[TopicId, tuple[PartitionIndex, ...]]
    configs_changed: frozenset[ConfigResource]
    brokers_changed: frozenset[NodeId]
    controllers_changed: frozenset[NodeId]
    features_changed: frozenset[str]
    quotas_changed: frozenset[QuotaEntity]

    def partition_changes(self) -> Iterator[PartitionChange]:
        """Each partition that is not the same in both images; what is removed comes first.

        A topic that was deleted and made again has a new id, so its old partitions go before its new ones come.
        """
        for topic in self.topics_removed.values():
            for index, partition in topic.partitions.items():
                yield PartitionChange(topic.name, topic.topic_id, index, partition, None)
        for topic in self.topics_created.values():
            for index, partition in topic.partitions.items():
                yield PartitionChange(topic.name, topic.topic_id, index, None, partition)
        for topic_id, indexes in self.partitions_changed.items():
            old, new = self.before.topics_by_id[topic_id], self.after.topics_by_id[topic_id]
            for index in indexes:
                yield PartitionChange(new.name, topic_id, index, old.partitions.get(index), new.partitions.get(index))

    def local_changes(self, broker: NodeId) -> LocalChanges:
        """The changes that concern the replicas of one broker."""
        remove: list[PartitionChange] = []
        lead: list[PartitionChange] = []
        follow: list[PartitionChange] = []
        for change in self.partition_changes():
            before, after = change.before, change.after
            if after is None or broker not in after.replicas:
                if before is not None and broker in before.replicas:
                    remove.append(change)
            elif after.leader == broker:
                lead.append(change)
            else:
                follow.append(change)
        return LocalChanges(tuple(remove), tuple(lead), tuple(follow))


def difference(before: ClusterImage, after: ClusterImage) -> Delta:
    """Compare two whole images. Costs a look at every topic, so only for a snapshot that replaces all."""
    old, new = before.topics_by_id, after.topics_by_id
    changed: dict[TopicId, tuple[PartitionIndex, ...]] = {}
    for topic_id in old.keys() & new.keys():
        if old[topic_id] is not new[topic_id]:
            indexes = changed_partitions(old[topic_id], new[topic_id])
            if indexes:
                changed[topic_id] = indexes
    return Delta(
        before=before,
        after=after,
        topics_created={topic_id: topic for topic_id, topic in new.items() if topic_id not in old},
        topics_removed={topic_id: topic for topic_id, topic in old.items() if topic_id not in new},
        partitions_changed=changed,
        configs_changed=_changed_keys(before.configs, after.configs),
        brokers_changed=_changed_keys(before.brokers, after.brokers),
        controllers_changed=_changed_keys(before.controllers, after.controllers),
        features_changed=_changed_keys(before.features, after.features),
        quotas_changed=_changed_keys(before.quotas, after.quotas),
    )


def changed_partitions(old: TopicImage, new: TopicImage) -> tuple[PartitionIndex, ...]:
    """The partitions that are not the same in two images of one topic, in order."""
    either = old.partitions.keys() | new.partitions.keys()
    return tuple(sorted(index for index in either if old.partitions.get(index) != new.partitions.get(index)))


def _changed_keys(old: Mapping[K, V], new: Mapping[K, V]) -> frozenset[K]:
    return frozenset(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))
