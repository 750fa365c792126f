"""The group coordinator of this broker: one shard for each partition of `__consumer_offsets` that it leads.

Group handlers submit their commands here; the partition of a group follows from its id, as in Apache Kafka. The topic
is created when somebody first looks for a coordinator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from tidelog.broker.group_shard import ShardHost
from tidelog.broker.timers import Timers
from tidelog.broker.topic_creation import TopicCreation
from tidelog.controller.topics import NewTopic, TopicCreated
from tidelog.groups.calls import Outcome
from tidelog.groups.metadata import topics_changed
from tidelog.groups.offsets.commit import end_transaction
from tidelog.groups.offsets.retention import topics_deleted
from tidelog.groups.partitioning import partition_for
from tidelog.groups.records import EndTransaction, Record
from tidelog.groups.settings import MigrationPolicy, Settings
from tidelog.groups.shard import Entropy, GroupShard
from tidelog.machine.runtime import Result
from tidelog.metadata.delta import Delta
from tidelog.metadata.image import ClusterImage
from tidelog.model.broker_settings import BrokerConfig
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import PartitionIndex
from tidelog.replica.partitions import NONE_LED, LedPartitions
from tidelog.wire.messages.heartbeat import HeartbeatRequest

OFFSETS_TOPIC: Final = "__consumer_offsets"
MINUTE_MS: Final = 60_000

ReplyT = TypeVar("ReplyT")


def group_settings(config: BrokerConfig) -> Settings:
    """What the broker's properties say about groups."""
    return Settings(
        session_timeout_ms_min=config.group_min_session_timeout_ms,
        session_timeout_ms_max=config.group_max_session_timeout_ms,
        initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        group_size_max=config.group_max_size,
        offset_metadata_bytes_max=config.offset_metadata_max_bytes,
        offsets_retention_ms=config.offsets_retention_minutes * MINUTE_MS,
        offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
        consumer_session_timeout_ms=config.group_consumer_session_timeout_ms,
        consumer_heartbeat_interval_ms=config.group_consumer_heartbeat_interval_ms,
        consumer_group_size_max=config.group_consumer_max_size,
        consumer_assignors=config.group_consumer_assignors,
        consumer_migration_policy=MigrationPolicy(config.group_consumer_migration_policy.lower()),
    )


class GroupCoordinator:
    def __init__(
        self,
        config: BrokerConfig,
        topics: TopicCreation,
        partitions: LedPartitions,
        entropy: Entropy,
        now_ms: Callable[[], int],
        timers: Timers,
    ) -> None:
        self._config = config
        self._settings = group_settings(config)
        self._topics = topics
        self._partitions = partitions
        self._entropy = entropy
        self.now_ms = now_ms
        self._timers = timers
        self._image = ClusterImage()
        self._hosts: dict[int, ShardHost] = {}

    @property
    def hosts(self) -> tuple[ShardHost, ...]:
        """Every shard that is led here, for listings."""
        return tuple(self._hosts.values())

    def apply(self, delta: Delta) -> None:
        """Follow the partitions of the offsets topic, and tell every shard what the cluster looks like."""
        self._image = delta.after
        led = self._partitions.by_name.get(OFFSETS_TOPIC, NONE_LED)
        for index in self._hosts.keys() - led.keys():
            self._hosts.pop(index).stop()
        for index in sorted(led.keys() - self._hosts.keys()):
            self._start(index)
        deleted = [topic.name for topic in delta.topics_removed.values() if delta.after.topic(topic.name) is None]
        changed = topics_changed(delta)
        for host in self._hosts.values():
            host.metadata_changed(self._image, topics_changed=changed)
            if deleted:
                host.submit(lambda shard, _: topics_deleted(shard, deleted))

    def stop(self) -> None:
        for index in tuple(self._hosts):
            self._hosts.pop(index).stop()

    def ensure_topic(self, done: Callable[[ErrorCode], None]) -> None:
        """Have the offsets topic exist, then call back."""
        if self._image.topic(OFFSETS_TOPIC) is not None:
            done(ErrorCode.NONE)
            return
        config = self._config
        brokers = sum(1 for _ in self._image.unfenced_brokers())
        topic = NewTopic(
            OFFSETS_TOPIC,
            config.offsets_topic_num_partitions,
            # A cluster that is still small keeps as many copies as it can.
            max(1, min(config.offsets_topic_replication_factor, brokers)),
            settings=[
                ("cleanup.policy", "compact"),
                ("compression.type", "producer"),
                ("segment.bytes", str(config.offsets_topic_segment_bytes)),
            ],
        )

        def created(outcome: list[TopicCreated] | ProtocolError) -> None:
            error = outcome if isinstance(outcome, ProtocolError) else outcome[0].error
            exists = error is None or error.code is ErrorCode.TOPIC_ALREADY_EXISTS
            done(ErrorCode.NONE if exists else ErrorCode.COORDINATOR_NOT_AVAILABLE)

        self._topics.create([topic], created)

    def partition_of(self, group_id: str) -> PartitionIndex | None:
        """The partition that keeps a group; None while the topic does not exist."""
        topic = self._image.topic(OFFSETS_TOPIC)
        return None if topic is None else PartitionIndex(partition_for(group_id, len(topic.partitions)))

    def submit(
        self,
        group_id: str,
        command: Callable[[GroupShard, int], Outcome],
        refused: Callable[[ErrorCode], None],
    ) -> None:
        """Run a command on the group's shard, whose replies find their way by themselves; or say why not."""
        host = self._host(group_id)
        if isinstance(host, ErrorCode):
            refused(host)
        else:
            host.submit(command, refused)

    def sign_of_life(self, request: HeartbeatRequest) -> ErrorCode | None:
        """What to tell a member that beats, if that can be told at once."""
        host = self._host(request.group_id)
        return None if isinstance(host, ErrorCode) else host.sign_of_life(request)

    def ask(
        self,
        group_id: str,
        command: Callable[[GroupShard], Result[Record, ReplyT]],
        answer: Callable[[ReplyT | ProtocolError], None],
    ) -> None:
        """Run a command on the group's shard and call back with its reply."""
        host = self._host(group_id)
        if isinstance(host, ErrorCode):
            answer(ProtocolError(host))
        else:
            host.ask(command, answer)

    def end_transaction(
        self, index: int, marker: EndTransaction, answer: Callable[[ProtocolError | None], None]
    ) -> None:
        """Write the end of a transaction to a partition of the offsets topic: its offsets count from then on."""
        host = self._hosts.get(index)
        if host is None:
            answer(ProtocolError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        else:
            host.ask(lambda shard: end_transaction(shard, marker), answer)

    def _host(self, group_id: str) -> ShardHost | ErrorCode:
        index = self.partition_of(group_id)
        if index is None:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return self._hosts.get(index, ErrorCode.NOT_COORDINATOR)

    def _start(self, index: int) -> None:
        leader = self._partitions.by_name[OFFSETS_TOPIC][index]
        host = ShardHost(
            leader,
            lambda: GroupShard(self._settings, self._entropy, self._image),
            self.now_ms,
            self._timers,
            lambda failed: self._start_over(index, failed),
        )
        self._hosts[index] = host
        host.start()

    def _start_over(self, index: int, failed: ShardHost) -> None:
        if self._hosts.get(index) is failed:
            self._hosts.pop(index).stop()
            leader = self._partitions.by_name.get(OFFSETS_TOPIC, NONE_LED).get(index)
            if leader is not None and not leader.failed:
                self._start(index)
