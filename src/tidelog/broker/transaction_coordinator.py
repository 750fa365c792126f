"""The transaction coordinator of this broker: one shard for each partition of `__transaction_state` that it leads.

Transaction handlers submit their commands here; the partition of a transactional id follows from it, as in Apache
Kafka. The topic is created when somebody first looks for a coordinator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from tidelog.broker.known_forms import KnownForms
from tidelog.broker.producer_ids import ProducerIds
from tidelog.broker.timers import Timers
from tidelog.broker.topic_creation import TopicCreation
from tidelog.broker.transaction_markers import LocalMarkers, MarkerSender
from tidelog.broker.transaction_peers import TransactionPeers
from tidelog.broker.transaction_request import Command
from tidelog.broker.transaction_shard import TransactionShardHost
from tidelog.broker.turn import IsLate
from tidelog.controller.topics import NewTopic, TopicCreated
from tidelog.metadata.delta import Delta
from tidelog.metadata.image import ClusterImage
from tidelog.model.broker_settings import BrokerConfig
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import NodeId, PartitionIndex
from tidelog.model.java_hash import partition_of_id
from tidelog.replica.partitions import NONE_LED, LedPartitions
from tidelog.transactions.batch_form import BatchForm
from tidelog.transactions.calls import Ending
from tidelog.transactions.delivery import Delivery
from tidelog.transactions.settings import Settings
from tidelog.transactions.shard import TransactionShard

TRANSACTION_TOPIC: Final = "__transaction_state"
START_OVER_SECONDS: Final = 0.1

ReplyT = TypeVar("ReplyT")


def transaction_settings(config: BrokerConfig, two_phase_ids_max: int) -> Settings:
    """What the broker's properties say about transactions."""
    return Settings(
        timeout_ms_max=config.transaction_max_timeout_ms,
        id_expiration_ms=config.transactional_id_expiration_ms,
        id_expiration_check_interval_ms=config.transaction_remove_expired_transaction_cleanup_interval_ms,
        two_phase_commit=config.transaction_two_phase_commit_enable,
        two_phase_ids_max=two_phase_ids_max,
    )


class TransactionCoordinator:
    def __init__(
        self,
        settings: Settings,
        config: BrokerConfig,
        node_id: NodeId,
        topics: TopicCreation,
        partitions: LedPartitions,
        producer_ids: ProducerIds,
        markers: LocalMarkers,
        now_ms: Callable[[], int],
        timers: Timers,
        later: Callable[[IsLate], None],
        elsewhere: TransactionPeers | None = None,
    ) -> None:
        self._elsewhere = elsewhere
        self._config = config
        self._settings = settings
        self._node_id = node_id
        self._topics = topics
        self._partitions = partitions
        self._producer_ids = producer_ids
        self._markers = markers
        self._now_ms = now_ms
        self._timers = timers
        self._later = later
        self._image = ClusterImage()
        self._hosts: dict[int, TransactionShardHost] = {}
        # How many shards there are; 0 while the topic does not exist.
        self._shards = 0
        self._forms: KnownForms[str, BatchForm] = KnownForms()

    @property
    def hosts(self) -> tuple[TransactionShardHost, ...]:
        """Every shard that is led here, for listings."""
        return tuple(self._hosts.values())

    def apply(self, delta: Delta) -> None:
        """Follow the partitions of the topic."""
        self._image = delta.after
        topic = self._image.topic(TRANSACTION_TOPIC)
        self._shards = 0 if topic is None else len(topic.partitions)
        led = self._partitions.by_name.get(TRANSACTION_TOPIC, NONE_LED)
        for index in self._hosts.keys() - led.keys():
            self._hosts.pop(index).stop()
        for index in sorted(led.keys() - self._hosts.keys()):
            self._start(index)

    def stop(self) -> None:
        for index in tuple(self._hosts):
            self._hosts.pop(index).stop()

    def ensure_topic(self, done: Callable[[ErrorCode], None]) -> None:
        """Have the topic exist, then call back."""
        if self._image.topic(TRANSACTION_TOPIC) is not None:
            done(ErrorCode.NONE)
            return
        config = self._config
        brokers = sum(1 for _ in self._image.unfenced_brokers())
        # A cluster that is still small keeps as many copies as it can.
        replicas = max(1, min(config.transaction_state_log_replication_factor, brokers))
        topic = NewTopic(
            TRANSACTION_TOPIC,
            config.transaction_state_log_num_partitions,
            replicas,
            settings=[
                ("cleanup.policy", "compact"),
                ("compression.type", "uncompressed"),
                ("min.insync.replicas", str(min(config.transaction_state_log_min_isr, replicas))),
                ("segment.bytes", str(config.transaction_state_log_segment_bytes)),
                ("unclean.leader.election.enable", "false"),
            ],
        )

        def created(outcome: list[TopicCreated] | ProtocolError) -> None:
            error = outcome if isinstance(outcome, ProtocolError) else outcome[0].error
            exists = error is None or error.code is ErrorCode.TOPIC_ALREADY_EXISTS
            done(ErrorCode.NONE if exists else ErrorCode.COORDINATOR_NOT_AVAILABLE)

        self._topics.create([topic], created)

    def partition_of(self, transactional_id: str) -> PartitionIndex | None:
        """The partition that keeps a transactional id; None while the topic does not exist."""
        return partition_of_id(transactional_id, self._shards) if self._shards else None

    def node_of(self, transactional_id: str) -> NodeId | None:
        """The broker that coordinates a transactional id, this one or another; None while there is none."""
        index = self.partition_of(transactional_id)
        partition = None if index is None else self._image.partition(TRANSACTION_TOPIC, index)
        return partition.leader if partition is not None and partition.has_leader else None

    def host(self, transactional_id: str) -> TransactionShardHost:
        """The shard that keeps a transactional id. Raises what a client is to be told when it is not here."""
        host = self.led_host(transactional_id)
        if host is None:
            raise ProtocolError(ErrorCode.NOT_COORDINATOR if self._shards else ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return host

    def submit(
        self, transactional_id: str, command: Command[ReplyT], answer: Callable[[ReplyT | ProtocolError], None]
    ) -> None:
        """Run a command on one transactional id and call back with its reply, or the error."""
        try:
            host = self.host(transactional_id)
        except ProtocolError as error:
            answer(error)
            return
        host.submit(transactional_id, command, answer)

    def led_host(self, transactional_id: str) -> TransactionShardHost | None:
        """The shard that keeps a transactional id, if it is here."""
        return self._hosts.get(partition_of_id(transactional_id, self._shards)) if self._shards else None

    def write_now(self, transactional_id: str) -> None:
        """Have what commands on a transactional id wrote take effect before the turn ends, where this broker can."""
        host = self.led_host(transactional_id)
        if host is not None:
            host.write_now()

    def _start(self, index: int) -> None:
        host = TransactionShardHost(
            self._partitions.by_name[TRANSACTION_TOPIC][index],
            lambda: TransactionShard(self._settings),
            self._now_ms,
            self._timers,
            self._later,
            self._producer_ids.take,
            self._partitions.by_name,
            self._sender,
            self._forms,
            lambda failed: self._start_over(index, failed),
        )
        self._hosts[index] = host
        host.start()

    def _start_over(self, index: int, failed: TransactionShardHost) -> None:
        if self._hosts.get(index) is failed:
            self._hosts.pop(index).stop()
            # Not now: the log is in the middle of a write that failed, and a full disk stays full for a while.
            self._timers.call_later(START_OVER_SECONDS, lambda: self._start_again(index))

    def _start_again(self, index: int) -> None:
        leader = self._partitions.by_name.get(TRANSACTION_TOPIC, NONE_LED).get(index)
        if leader is not None and not leader.failed and index not in self._hosts:
            self._start(index)

    def _sender(self, ending: Ending, done: Callable[[Delivery], None]) -> MarkerSender:
        return MarkerSender(
            ending, self._node_id, lambda: self._image, self._markers, self._timers, done, self._elsewhere
        )
