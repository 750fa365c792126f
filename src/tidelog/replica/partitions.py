"""The partitions on this broker, those that it leads and those that it follows, found by topic name or topic id, and
the changes that come from the metadata image."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Protocol

from tidelog.log.errors import LogFailed, is_full_disk
from tidelog.log.partition import PartitionLog
from tidelog.metadata.delta import Delta, PartitionChange
from tidelog.metadata.image import ClusterImage, PartitionRegistration, ResourceType, TopicImage
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import NO_NODE, NodeId, Offset, TopicId, TopicName, TopicPartition
from tidelog.model.topic_settings import TopicConfig
from tidelog.replica.disk import Disk
from tidelog.replica.follower import PartitionFollower
from tidelog.replica.in_sync import InSync
from tidelog.replica.leader import PartitionLeader
from tidelog.wire.messages.fetch import FetchTopic

NONE_LED: Final[Mapping[int, PartitionLeader]] = {}
NONE_FOLLOWED: Final[Mapping[int, PartitionFollower]] = {}
LAG_MS_MAX: Final = 30_000


class Logs(Protocol):
    """Where partitions' logs live: opened at start-up or made on demand."""

    def get_or_create(self, partition: TopicPartition, topic_id: TopicId, config: TopicConfig) -> PartitionLog: ...
    def high_watermark(self, partition: TopicPartition) -> Offset: ...
    def reconfigure(self, partition: TopicPartition, config: TopicConfig) -> None: ...
    def delete(self, partition: TopicPartition) -> None: ...


class Fetchers(Protocol):
    """Fetch what this broker follows from whoever leads it."""

    def follow(self, follower: PartitionFollower) -> None:
        """Begin, or begin anew with the leader and epoch that the follower has now."""

    def stop(self, follower: PartitionFollower) -> None: ...
    def synced(self, follower: PartitionFollower) -> None: ...


class IsrChanges(Protocol):
    """Asked to look whether the ISR of a partition should change."""

    def look_at(self, leader: PartitionLeader) -> None: ...


class Alone:
    """For a broker that has no other to fetch from, or to propose to."""

    def follow(self, follower: PartitionFollower) -> None: ...
    def stop(self, follower: PartitionFollower) -> None: ...
    def synced(self, follower: PartitionFollower) -> None: ...
    def look_at(self, leader: PartitionLeader) -> None: ...


class LedPartitions:
    """Look-ups are two dict accesses; a handler that finds nothing asks `why_not_led` for the right error."""

    def __init__(
        self,
        node_id: NodeId,
        logs: Logs,
        topic_config: Callable[[ClusterImage, str], TopicConfig],
        on_staged: Callable[[PartitionLeader], None],
        disk: Disk,
        now_ms: Callable[[], int] = lambda: 0,
        lag_ms_max: int = LAG_MS_MAX,
    ) -> None:
        self._node_id = node_id
        self._logs = logs
        self._topic_config = topic_config
        self._on_staged = on_staged
        self._disk = disk
        self._now_ms = now_ms
        self._lag_ms_max = lag_ms_max
        self._image = ClusterImage()
        self._fetchers: Fetchers = Alone()
        self._isr_changes: IsrChanges = Alone()
        # When each broker last fetched from this one.
        self.heard_ms: dict[NodeId, int] = {}
        self.by_name: dict[str, dict[int, PartitionLeader]] = {}
        self.by_id: dict[TopicId, dict[int, PartitionLeader]] = {}
        self.followed: dict[TopicId, dict[int, PartitionFollower]] = {}
        # What should be led or followed and could not be made, for want of room.
        self.unopened: dict[tuple[TopicId, int], tuple[PartitionChange, Callable[[PartitionChange], None]]] = {}

    def replicate_with(self, fetchers: Fetchers, isr_changes: IsrChanges) -> None:
        """From now on this broker has others beside it."""
        self._fetchers = fetchers
        self._isr_changes = isr_changes

    @property
    def image(self) -> ClusterImage:
        """The metadata that this broker acts on."""
        return self._image

    def __iter__(self) -> Iterator[PartitionLeader]:
        for partitions in self.by_name.values():
            yield from partitions.values()

    def __len__(self) -> int:
        return sum(map(len, self.by_name.values()))

    def replicas(self) -> Iterator[PartitionLeader | PartitionFollower]:
        """Everything that has a log here, led or followed."""
        yield from self
        for partitions in self.followed.values():
            yield from partitions.values()

    def named(self, topic: str, index: int) -> PartitionLeader:
        """The leader of a partition, or the error that tells the client why it is not here."""
        leader = self.by_name.get(topic, NONE_LED).get(index)
        if leader is None:
            raise ProtocolError(self.why_not_led(topic, index))
        return leader

    def follower(self, topic: str, topic_id: TopicId, index: int) -> PartitionFollower | None:
        """The partition as it is followed here, by topic id, or by name where a client knows no id."""
        if topic:
            found = self._image.topic(topic)
            if found is None:
                return None
            topic_id = found.topic_id
        return self.followed.get(topic_id, NONE_FOLLOWED).get(index)

    def why_not_led(self, topic: str, index: int) -> ErrorCode:
        if self._image.partition(topic, index) is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def why_not_led_by_id(self, topic_id: TopicId, index: int) -> ErrorCode:
        topic = self._image.topic_by_id(topic_id)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        return self.why_not_led(topic.name, index)

    # Who may join an ISR

    def eligible_epoch(self, node: NodeId) -> int | None:
        """The epoch of a broker that may be in an ISR; None for one that is fenced, shuts down or is unknown."""
        broker = self._image.brokers.get(node)
        return broker.epoch if broker is not None and broker.active else None

    def is_alive(self, node: NodeId) -> bool:
        """Whether a broker is there, as far as the controller knows."""
        broker = self._image.brokers.get(node)
        return broker is not None and not broker.fenced

    # What followers have

    def fetched_by(self, node: NodeId, broker_epoch: int, topics: Sequence[FetchTopic], by_id: bool) -> None:
        """Note where a follower fetches from: it has everything before. Partitions that it does not name are as
        before."""
        now_ms = self._now_ms()
        self.heard_ms[node] = now_ms
        for topic in topics:
            led = self.by_id.get(topic.topic_id) if by_id else self.by_name.get(topic.topic)
            if not led:
                continue
            for position in topic.partitions:
                leader = led.get(position.partition)
                if leader is not None:
                    leader.fetched_by(node, broker_epoch, position, now_ms)
                    self._look_at_newcomer(leader, node, now_ms)

    def _look_at_newcomer(self, leader: PartitionLeader, node: NodeId, now_ms: int) -> None:
        in_sync = leader.in_sync
        if node in in_sync.followers and node not in in_sync.isr:
            in_sync.wait_for(node, leader.log.end_offset, now_ms, self.eligible_epoch)
            self._isr_changes.look_at(leader)

    # Changes

    def apply(self, delta: Delta) -> None:
        """Take over a new image: stop what went, lead and follow what came, pass on changed settings."""
        self._image = delta.after
        changes = delta.local_changes(self._node_id)
        for change in changes.remove:
            self._resign(change)
            self._unfollow(change)
            self.unopened.pop((change.topic_id, change.partition), None)
            self._logs.delete(change.topic_partition)
        # Who no longer leads stops before anybody begins, so that a coordinator never runs twice.
        beginnings = [*((change, self._follow) for change in changes.follow)]
        beginnings += [(change, self._lead) for change in changes.lead]
        for change, begin in [*self.unopened.values(), *beginnings]:
            self._try(change, begin)
        self._reconfigure(delta)
        if delta.brokers_changed:
            self._brokers_changed()

    def _try(self, change: PartitionChange, begin: Callable[[PartitionChange], None]) -> None:
        """Lead or follow a partition. One that the disk has no room for is tried again with the next change; one whose
        disks are all gone is offline until the broker starts again."""
        key = (change.topic_id, change.partition)
        self.unopened.pop(key, None)
        try:
            begin(change)
        except LogFailed as failure:
            if is_full_disk(failure):
                self.unopened[key] = (change, begin)

    def _lead(self, change: PartitionChange) -> None:
        after = change.after
        assert after is not None
        now_ms = self._now_ms()
        leader = self.by_id.get(change.topic_id, NONE_LED).get(change.partition)
        if leader is not None:
            leader.update(after.leader_epoch, after.partition_epoch, after.replicas, after.isr, now_ms)
            self._isr_changes.look_at(leader)
            return
        known = self._unfollow(change)
        config = self._topic_config(self._image, change.topic)
        log = self._logs.get_or_create(change.topic_partition, change.topic_id, config)
        in_sync = InSync(self._node_id, self._lag_ms_max, self.heard_ms)
        in_sync.lead(after.leader_epoch, after.partition_epoch, after.replicas, after.isr, log.end_offset, now_ms)
        leader = PartitionLeader(
            topic=change.topic,
            topic_id=change.topic_id,
            index=change.partition,
            log=log,
            config=config,
            epoch=after.leader_epoch,
            in_sync=in_sync,
            high_watermark=self._logs.high_watermark(change.topic_partition) if known is None else known,
            on_staged=self._on_staged,
            disk=self._disk,
        )
        if change.topic_id not in self.by_id:
            self.by_id[change.topic_id] = self.by_name[change.topic] = {}
        self.by_id[change.topic_id][change.partition] = leader

    def _follow(self, change: PartitionChange) -> None:
        after = change.after
        assert after is not None
        known = self._resign(change)
        follower = self.followed.get(change.topic_id, NONE_FOLLOWED).get(change.partition)
        if follower is None:
            follower = self._new_follower(change, after, known)
        elif follower.epoch == after.leader_epoch:
            return  # Only the ISR changed, which is the leader's business.
        follower.epoch = after.leader_epoch
        follower.leader = after.leader
        if after.leader == NO_NODE or follower.failed:
            self._fetchers.stop(follower)
        else:
            self._fetchers.follow(follower)

    def _new_follower(
        self, change: PartitionChange, after: PartitionRegistration, known: Offset | None
    ) -> PartitionFollower:
        config = self._topic_config(self._image, change.topic)
        follower = PartitionFollower(
            topic=change.topic,
            topic_id=change.topic_id,
            index=change.partition,
            log=self._logs.get_or_create(change.topic_partition, change.topic_id, config),
            config=config,
            epoch=after.leader_epoch,
            leader=after.leader,
            high_watermark=self._logs.high_watermark(change.topic_partition) if known is None else known,
            disk=self._disk,
            on_synced=lambda one: self._fetchers.synced(one),
        )
        self.followed.setdefault(change.topic_id, {})[change.partition] = follower
        return follower

    def _resign(self, change: PartitionChange) -> Offset | None:
        """Lead no more; gives the high watermark, if this broker led."""
        partitions = self.by_id.get(change.topic_id)
        leader = partitions.pop(change.partition, None) if partitions else None
        if leader is None:
            return None
        if not partitions:
            del self.by_id[change.topic_id]
            # The name may already belong to a younger topic.
            if self.by_name.get(change.topic) is partitions:
                del self.by_name[change.topic]
        leader.resign()
        return leader.high_watermark

    def _unfollow(self, change: PartitionChange) -> Offset | None:
        """Follow no more; gives the high watermark, if this broker followed."""
        partitions = self.followed.get(change.topic_id)
        follower = partitions.pop(change.partition, None) if partitions else None
        if follower is None:
            return None
        if not partitions:
            del self.followed[change.topic_id]
        self._fetchers.stop(follower)
        follower.resign()
        return follower.high_watermark

    def _brokers_changed(self) -> None:
        """A broker that is back, or back in another epoch, may join where it could not before."""
        for leader in self:
            if len(leader.isr) < len(leader.replicas):
                self._isr_changes.look_at(leader)

    def _reconfigure(self, delta: Delta) -> None:
        changed = delta.configs_changed
        if not changed:
            return
        if any(resource.type is ResourceType.BROKER for resource in changed):
            topics = {leader.topic for leader in self}
            topics.update(one.topic for followed in self.followed.values() for one in followed.values())
        else:
            topics = {TopicName(resource.name) for resource in changed if resource.type is ResourceType.TOPIC}
        for name in sorted(topics):
            topic = delta.after.topic(name)
            if topic is not None:
                self._configure_topic(topic)

    def _configure_topic(self, topic: TopicImage) -> None:
        config = self._topic_config(self._image, topic.name)
        replicas: list[PartitionLeader | PartitionFollower] = [
            *self.by_id.get(topic.topic_id, NONE_LED).values(),
            *self.followed.get(topic.topic_id, NONE_FOLLOWED).values(),
        ]
        for replica in replicas:
            replica.configure(config)
            self._logs.reconfigure(TopicPartition(topic.name, replica.index), config)
