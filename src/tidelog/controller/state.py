"""The controller's machine: the newest image, committed or not, and indexes over it that commands need.

Commands (`topics.py`, `settings.py`, `brokers.py`, …) are functions over a `Controller`: they read it and return
records. Only `replay` changes it, except for `sessions`: times of heartbeats, which are not replicated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol
from uuid import UUID

from tidelog.controller.placement import Loads
from tidelog.controller.sessions import Sessions
from tidelog.metadata.delta import Delta, difference
from tidelog.metadata.image import DIRECTORY_UNASSIGNED, EMPTY, ClusterImage
from tidelog.metadata.replay import replay
from tidelog.model.ids import LeaderEpoch, NodeId, Offset, PartitionIndex, TopicId, TopicName
from tidelog.model.names import collision_key
from tidelog.wire.schema import Message


class Entropy(Protocol):
    """Where the ids of new topics come from."""

    def uuid(self) -> UUID: ...


@dataclass(frozen=True, slots=True)
class Policy:
    """The controller's own settings, from the properties of the node it runs on."""

    default_partitions: int = 1
    default_replication_factor: int = 1
    delete_topics: bool = True
    broker_session_timeout_ms: int = 9000
    # What the properties file sets for every broker; a topic's setting falls back to it.
    static_settings: Mapping[str, str] = field(default_factory=dict)


class PartitionKey(NamedTuple):
    """A partition by the id of its topic, so that a topic made again is another one."""

    topic_id: TopicId
    partition: PartitionIndex


class Controller:
    """All that the controller knows. Built anew, and replayed, whenever leadership was lost."""

    def __init__(self, policy: Policy, entropy: Entropy, image: ClusterImage = EMPTY) -> None:
        self.policy = policy
        self.entropy = entropy
        self.image = EMPTY
        # Topic names that differ only by "." and "_" share a key: their metrics would collide.
        self.names_by_collision_key: dict[str, set[TopicName]] = {}
        # The partitions with a replica on a broker: what its fencing, return or removal touches. Keys alone: an ordered
        # set, so that one history always makes the same records.
        self.partitions_by_broker: dict[NodeId, dict[PartitionKey, None]] = {}
        self.loads = Loads()
        self.sessions = Sessions(policy.broker_session_timeout_ms)
        self._adopt(difference(EMPTY, image))

    def replay(self, records: Sequence[Message], offset: Offset, epoch: LeaderEpoch) -> None:
        """Apply records written in `epoch`, of which the last has `offset`."""
        self._adopt(replay(self.image, records, offset, epoch))

    def directory_for(self, broker: NodeId) -> UUID:
        """Where a new replica goes: the broker's only folder, or as the broker will choose and then report."""
        registration = self.image.brokers.get(broker)
        if registration is not None and len(registration.directories) == 1:
            return registration.directories[0]
        return DIRECTORY_UNASSIGNED

    def _adopt(self, delta: Delta) -> None:
        self.image = delta.after
        for topic in delta.topics_removed.values():
            key = collision_key(topic.name)
            names = self.names_by_collision_key[key]
            names.discard(topic.name)
            if not names:
                del self.names_by_collision_key[key]
        for topic in delta.topics_created.values():
            self.names_by_collision_key.setdefault(collision_key(topic.name), set()).add(topic.name)
        for change in delta.partition_changes():
            if (
                change.before is not None
                and change.after is not None
                and change.before.replicas == change.after.replicas
            ):
                continue
            place = PartitionKey(change.topic_id, change.partition)
            if change.before is not None:
                self.loads.remove(change.before.replicas)
                for broker in change.before.replicas:
                    self.partitions_by_broker[broker].pop(place, None)
            if change.after is not None:
                self.loads.add(change.after.replicas)
                for broker in change.after.replicas:
                    self.partitions_by_broker.setdefault(broker, {})[place] = None
