"""The partitions that this broker leads, found by topic name or topic id, and the changes that come from the metadata
image."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol

from tidelog.log.partition import PartitionLog
from tidelog.metadata.delta import Delta, PartitionChange
from tidelog.metadata.image import ClusterImage, ResourceType
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import NodeId, PartitionIndex, TopicId, TopicName, TopicPartition
from tidelog.model.topic_settings import TopicConfig
from tidelog.replica.leader import Disk, PartitionLeader

NONE_LED: Final[Mapping[int, PartitionLeader]] = {}


class Logs(Protocol):
    """Where partitions' logs live: opened at start-up or made on demand."""

    def get_or_create(self, partition: TopicPartition, topic_id: TopicId, config: TopicConfig) -> PartitionLog: ...
    def reconfigure(self, partition: TopicPartition, config: TopicConfig) -> None: ...
    def delete(self, partition: TopicPartition) -> None: ...


class LedPartitions:
    """Look-ups are two dict accesses; a handler that finds nothing asks `why_not_led` for the right error."""

    def __init__(
        self,
        node_id: NodeId,
        logs: Logs,
        topic_config: Callable[[ClusterImage, str], TopicConfig],
        on_staged: Callable[[PartitionLeader], None],
        disk: Disk,
    ) -> None:
        self._node_id = node_id
        self._logs = logs
        self._topic_config = topic_config
        self._on_staged = on_staged
        self._disk = disk
        self._image = ClusterImage()
        self.by_name: dict[str, dict[int, PartitionLeader]] = {}
        self.by_id: dict[TopicId, dict[int, PartitionLeader]] = {}

    def __iter__(self) -> Iterator[PartitionLeader]:
        for partitions in self.by_name.values():
            yield from partitions.values()

    def __len__(self) -> int:
        return sum(map(len, self.by_name.values()))

    def named(self, topic: str, index: int) -> PartitionLeader:
        """The leader of a partition, or the error that tells the client why it is not here."""
        leader = self.by_name.get(topic, NONE_LED).get(index)
        if leader is None:
            raise ProtocolError(self.why_not_led(topic, index))
        return leader

    def why_not_led(self, topic: str, index: int) -> ErrorCode:
        if self._image.partition(topic, index) is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def why_not_led_by_id(self, topic_id: TopicId, index: int) -> ErrorCode:
        topic = self._image.topic_by_id(topic_id)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        return self.why_not_led(topic.name, index)

    def apply(self, delta: Delta) -> None:
        """Take over a new image: stop what went, lead what came, pass on changed settings."""
        self._image = delta.after
        changes = delta.local_changes(self._node_id)
        for change in changes.remove:
            self._resign(change)
            self._logs.delete(change.topic_partition)
        for change in changes.follow:
            self._resign(change)
        for change in changes.lead:
            self._lead(change)
        self._reconfigure(delta)

    def _lead(self, change: PartitionChange) -> None:
        after = change.after
        assert after is not None
        leader = self.by_id.get(change.topic_id, {}).get(change.partition)
        if leader is not None:
            leader.epoch, leader.isr, leader.replicas = after.leader_epoch, after.isr, after.replicas
            return
        config = self._topic_config(self._image, change.topic)
        leader = PartitionLeader(
            node_id=self._node_id,
            topic=change.topic,
            topic_id=change.topic_id,
            index=change.partition,
            log=self._logs.get_or_create(change.topic_partition, change.topic_id, config),
            config=config,
            epoch=after.leader_epoch,
            replicas=after.replicas,
            isr=after.isr,
            on_staged=self._on_staged,
            disk=self._disk,
        )
        if change.topic_id not in self.by_id:
            self.by_id[change.topic_id] = self.by_name[change.topic] = {}
        self.by_id[change.topic_id][change.partition] = leader

    def _resign(self, change: PartitionChange) -> None:
        partitions = self.by_id.get(change.topic_id)
        leader = partitions.pop(change.partition, None) if partitions else None
        if leader is None:
            return
        if not partitions:
            del self.by_id[change.topic_id]
            # The name may already belong to a younger topic.
            if self.by_name.get(change.topic) is partitions:
                del self.by_name[change.topic]
        leader.resign()

    def _reconfigure(self, delta: Delta) -> None:
        changed = delta.configs_changed
        if not changed:
            return
        everything = any(resource.type is ResourceType.BROKER for resource in changed)
        for topic in list(self.by_name) if everything else [r.name for r in changed if r.type is ResourceType.TOPIC]:
            partitions = self.by_name.get(topic)
            if not partitions:
                continue
            config = self._topic_config(delta.after, topic)
            for index, leader in partitions.items():
                leader.configure(config)
                self._logs.reconfigure(TopicPartition(TopicName(topic), PartitionIndex(index)), config)
