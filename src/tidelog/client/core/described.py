"""What an admin client asks for and is told: topics, settings, offsets, brokers, directories, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from tidelog.client.core.metadata import Node
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import (
    NO_EPOCH,
    NO_TIMESTAMP,
    LeaderEpoch,
    NodeId,
    Offset,
    PartitionIndex,
    TopicId,
    TopicName,
    TopicPartition,
)

# Special timestamps of ListOffsets.
LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6

# "The broker decides", for partitions and replication factor (KIP-464).
BROKER_DEFAULT: Final = -1


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. With assignments, the replicas of each partition, the two counts stay at the default."""

    name: TopicName
    partitions: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    configs: Mapping[str, str] = field(default_factory=dict)
    assignments: tuple[tuple[NodeId, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """A topic that was created, with what the broker chose where nothing was said; -1 when it does not tell."""

    name: TopicName
    id: TopicId
    partitions: int
    replication_factor: int


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """One partition; `None` for eligible leaders when the broker does not track them (KIP-966)."""

    index: PartitionIndex
    leader: NodeId
    leader_epoch: LeaderEpoch
    replicas: tuple[NodeId, ...]
    isr: tuple[NodeId, ...]
    offline: tuple[NodeId, ...] = ()
    eligible_leaders: tuple[NodeId, ...] | None = None
    last_known_leaders: tuple[NodeId, ...] | None = None


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """One topic with its partitions by index."""

    name: TopicName
    id: TopicId
    internal: bool
    partitions: tuple[PartitionDescription, ...]

    @property
    def replication_factor(self) -> int:
        """That of the first partition, as Kafka's tools count it."""
        return len(self.partitions[0].replicas) if self.partitions else 0


class ResourceType(IntEnum):
    """What settings belong to."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


@dataclass(frozen=True, slots=True)
class Resource:
    """One owner of settings. A broker without a name is the default for all brokers."""

    type: ResourceType
    name: str


class ConfigSource(IntEnum):
    """Where a value comes from, in the protocol's numbers."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


@dataclass(frozen=True, slots=True)
class Synonym:
    """One place in which a setting may have a value; the first of the list is the one in force."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One setting and its value."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool = False
    sensitive: bool = False
    synonyms: tuple[Synonym, ...] = ()
    documentation: str | None = None

    @property
    def is_default(self) -> bool:
        return self.source == ConfigSource.DEFAULT_CONFIG


class ConfigChange(IntEnum):
    """What IncrementalAlterConfigs does to one key."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class OffsetAt:
    """An answer to "which offset is at this time"; offset -1 when no record is that young."""

    offset: Offset
    timestamp_ms: int = NO_TIMESTAMP
    leader_epoch: LeaderEpoch = NO_EPOCH


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The cluster's name and its brokers."""

    cluster_id: str
    controller: NodeId
    brokers: tuple[Node, ...]
    fenced: frozenset[NodeId] = frozenset()


@dataclass(frozen=True, slots=True)
class ReplicaSize:
    """How much one replica holds on disk, and how far it is behind."""

    partition: TopicPartition
    size_bytes: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDir:
    """One data directory of one broker. Bytes of the volume are -1 when the broker does not tell."""

    path: str
    error: ErrorCode
    replicas: tuple[ReplicaSize, ...]
    total_bytes: int = -1
    usable_bytes: int = -1
