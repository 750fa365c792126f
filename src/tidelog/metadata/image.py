"""The cluster as one immutable value: brokers, topics with their partitions, settings, features, quotas.

Handlers, replicas and the controller read it; only `metadata/replay.py` makes a new one, sharing all that did not
change. It never holds what is not in the metadata log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec

from tidelog.model.ids import (
    NO_EPOCH,
    NO_NODE,
    NO_OFFSET,
    LeaderEpoch,
    NodeId,
    Offset,
    PartitionIndex,
    ProducerId,
    TopicId,
    TopicName,
)

# What a partition says about the folder of a replica (KIP-858) when it is not the id of a real one.
DIRECTORY_MIGRATING: Final = UUID(int=0)
DIRECTORY_UNASSIGNED: Final = UUID(int=1)
DIRECTORY_LOST: Final = UUID(int=2)

NOTHING: Final[Mapping[Any, Any]] = MappingProxyType({})


class ResourceType(IntEnum):
    """What a setting belongs to, by its number in the protocol."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """One thing that has settings. A BROKER with an empty name is the default of all brokers."""

    type: ResourceType
    name: str


class LeaderRecoveryState(IntEnum):
    """Whether the leader was elected from the ISR, or still recovers from an unclean election (KIP-704)."""

    RECOVERED = 0
    RECOVERING = 1


class Endpoint(msgspec.Struct, frozen=True, gc=False):
    """Where one listener of a broker or controller is reached."""

    name: str
    host: str
    port: int
    security_protocol: int = 0


class FeatureRange(NamedTuple):
    """The levels of a feature that a node can run with, both ends included."""

    lowest: int
    highest: int


class BrokerRegistration(msgspec.Struct, frozen=True):
    """A broker as it last registered itself. A fenced broker is known but leads nothing and is shown to no client."""

    broker_id: NodeId
    epoch: int
    incarnation_id: UUID
    endpoints: Mapping[str, Endpoint]
    features: Mapping[str, FeatureRange] = NOTHING
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    directories: tuple[UUID, ...] = ()

    @property
    def active(self) -> bool:
        """Whether new partitions may be led by it."""
        return not self.fenced and not self.in_controlled_shutdown


class ControllerRegistration(msgspec.Struct, frozen=True):
    """A controller as it last registered itself."""

    controller_id: NodeId
    incarnation_id: UUID
    endpoints: Mapping[str, Endpoint]
    features: Mapping[str, FeatureRange] = NOTHING


class PartitionRegistration(msgspec.Struct, frozen=True, gc=False):
    """One partition: who holds it, who is in sync, who leads. `replicas[0]` is the preferred leader."""

    replicas: tuple[NodeId, ...]
    isr: tuple[NodeId, ...]
    leader: NodeId
    leader_epoch: LeaderEpoch
    partition_epoch: int
    leader_recovery_state: LeaderRecoveryState = LeaderRecoveryState.RECOVERED
    removing_replicas: tuple[NodeId, ...] = ()
    adding_replicas: tuple[NodeId, ...] = ()
    # Out of the ISR, yet known to hold all that was committed while the ISR was below min.insync.replicas (KIP-966).
    eligible_leader_replicas: tuple[NodeId, ...] = ()
    last_known_elr: tuple[NodeId, ...] = ()
    # The folder of each replica, in the order of `replicas`.
    directories: tuple[UUID, ...] = ()

    @property
    def has_leader(self) -> bool:
        return self.leader != NO_NODE

    @property
    def reassigning(self) -> bool:
        return bool(self.removing_replicas or self.adding_replicas)

    def directory_of(self, broker: NodeId) -> UUID:
        """The folder in which a replica lives; UNASSIGNED when the broker holds no replica."""
        for replica, directory in zip(self.replicas, self.directories, strict=False):
            if replica == broker:
                return directory
        return DIRECTORY_UNASSIGNED


class TopicImage(msgspec.Struct, frozen=True):
    """A topic and its partitions, numbered from 0 without a gap."""

    name: TopicName
    topic_id: TopicId
    partitions: Mapping[PartitionIndex, PartitionRegistration]


class QuotaEntity(NamedTuple):
    """Whom a client quota binds: pairs of kind ("user", "client-id", "ip") and name, sorted; None names the default."""

    parts: tuple[tuple[str, str | None], ...]


class ClusterImage(msgspec.Struct, frozen=True):
    """Everything the metadata log says up to and with the record at `offset`."""

    brokers: Mapping[NodeId, BrokerRegistration] = NOTHING
    controllers: Mapping[NodeId, ControllerRegistration] = NOTHING
    topics_by_name: Mapping[TopicName, TopicImage] = NOTHING
    topics_by_id: Mapping[TopicId, TopicImage] = NOTHING
    configs: Mapping[ConfigResource, Mapping[str, str]] = NOTHING
    features: Mapping[str, int] = NOTHING
    quotas: Mapping[QuotaEntity, Mapping[str, float]] = NOTHING
    # The first producer id that was never handed out.
    next_producer_id: ProducerId = ProducerId(0)
    offset: Offset = NO_OFFSET
    epoch: LeaderEpoch = NO_EPOCH

    @property
    def end_offset(self) -> Offset:
        """The offset that the next record will get."""
        return Offset(self.offset + 1)

    def offline_replicas(self, partition: PartitionRegistration) -> list[NodeId]:
        """Replicas that cannot be reached: their broker is gone or fenced, or has lost the folder that they are in."""
        return [replica for replica in partition.replicas if not self._is_online(replica, partition)]

    def _is_online(self, replica: NodeId, partition: PartitionRegistration) -> bool:
        broker = self.brokers.get(replica)
        if broker is None or broker.fenced:
            return False
        directory = partition.directory_of(replica)
        if directory in (DIRECTORY_UNASSIGNED, DIRECTORY_MIGRATING) or not broker.directories:
            return True
        return directory in broker.directories

    def topic(self, name: str) -> TopicImage | None:
        return self.topics_by_name.get(TopicName(name))

    def topic_by_id(self, topic_id: TopicId) -> TopicImage | None:
        return self.topics_by_id.get(topic_id)

    def partition(self, name: str, index: int) -> PartitionRegistration | None:
        topic = self.topics_by_name.get(TopicName(name))
        return None if topic is None else topic.partitions.get(PartitionIndex(index))

    def config(self, resource: ConfigResource) -> Mapping[str, str]:
        """What was set for a resource by command; nothing of defaults or the properties file."""
        return self.configs.get(resource, NOTHING)

    def unfenced_brokers(self) -> Iterator[BrokerRegistration]:
        return (broker for broker in self.brokers.values() if not broker.fenced)


EMPTY: Final = ClusterImage()
