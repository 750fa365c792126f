"""The blocking admin client: everything that can be asked of a cluster or changed in it, by one object.

    with Admin(bootstrap_servers="localhost:9092") as admin:
        admin.create_topic("orders", partitions=6)

What concerns one thing raises what went wrong; what concerns many gives an answer for each, of which some may be the
`Rejected` that a broker answered. The parts (`client/admin.py`, `groups.py`, `transactions.py` …) do the work.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Self, Unpack

from tidelog.client import elections, offset_resets, quorum, quotas, reassignments
from tidelog.client.admin import Admin as Topics
from tidelog.client.admin import accepted
from tidelog.client.cluster import Cluster
from tidelog.client.core.described import (
    BROKER_DEFAULT,
    ClusterDescription,
    ConfigChange,
    ConfigEntry,
    CreatedTopic,
    LogDir,
    NewTopic,
    OffsetAt,
    Resource,
    ResourceType,
    TopicDescription,
)
from tidelog.client.core.groups import CommittedOffset, GroupDescription, GroupListing
from tidelog.client.core.metadata import Topic
from tidelog.client.core.options import AdminOptions, read_options
from tidelog.client.core.settings_types import AdminSettings
from tidelog.client.elections import ElectionType
from tidelog.client.errors import Rejected
from tidelog.client.groups import Groups, Lag
from tidelog.client.quotas import AnyName, EntityQuotas
from tidelog.client.reassignments import Reassignment
from tidelog.client.security import security_of
from tidelog.client.transactions import TransactionDescription, TransactionListing, Transactions
from tidelog.model.ids import NodeId, Offset, PartitionIndex, TopicName, TopicPartition

MILLISECONDS: Final = 1000.0


class Admin:
    """Asks a cluster about itself and changes it. Any number of threads may use one: they take turns."""

    def __init__(self, config: Mapping[str, Any] | str | None = None, /, **settings: Unpack[AdminSettings]) -> None:
        """Settings by Kafka's names, named (`bootstrap_servers=...`) or as a mapping of dotted names."""
        options = read_options(AdminOptions, config, settings)
        self._turn = threading.RLock()
        self._cluster = Cluster(
            options.bootstrap_servers,
            client_id=options.client_id,
            request_timeout_s=options.request_timeout_ms / MILLISECONDS,
            timeout_s=options.default_api_timeout_ms / MILLISECONDS,
            security=security_of(options),
        )
        self._topics = Topics(self._cluster)
        self._groups = Groups(self._cluster)
        self._transactions = Transactions(self._cluster)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with self._turn:
            self._cluster.close()

    # Topics and partitions

    def list_topics(self) -> list[Topic]:
        """Every topic by name."""
        with self._turn:
            return self._topics.list_topics()

    def describe_topics(self, names: Iterable[str]) -> dict[TopicName, TopicDescription | Rejected]:
        """Partitions, leaders and replicas of topics."""
        with self._turn:
            return self._topics.describe_topics(map(TopicName, names))

    def describe_topic(self, name: str) -> TopicDescription:
        return accepted(self.describe_topics([name])[TopicName(name)])

    def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> dict[TopicName, CreatedTopic | Rejected]:
        """Create topics, or only say whether they could be."""
        with self._turn:
            return self._topics.create_topics(topics, validate_only=validate_only)

    def create_topic(
        self,
        name: str,
        partitions: int = BROKER_DEFAULT,
        replication_factor: int = BROKER_DEFAULT,
        configs: Mapping[str, str] | None = None,
    ) -> CreatedTopic:
        """Create one topic; what is left out the broker decides."""
        topic = NewTopic(TopicName(name), partitions, replication_factor, configs=dict(configs or {}))
        return accepted(self.create_topics([topic])[topic.name])

    def delete_topics(self, names: Sequence[str]) -> dict[TopicName, Rejected | None]:
        """Delete topics with all that they hold."""
        with self._turn:
            return self._topics.delete_topics([TopicName(name) for name in names])

    def delete_topic(self, name: str) -> None:
        accepted(self.delete_topics([name])[TopicName(name)])

    def create_partitions(
        self, counts: Mapping[str, int], *, validate_only: bool = False
    ) -> dict[TopicName, Rejected | None]:
        """Let topics have this many partitions."""
        with self._turn:
            wanted = {TopicName(name): count for name, count in counts.items()}
            return self._topics.create_partitions(wanted, validate_only=validate_only)

    def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, OffsetAt | Rejected]:
        """The offset at a time in milliseconds, or at EARLIEST, LATEST or MAX_TIMESTAMP."""
        with self._turn:
            return self._topics.list_offsets(timestamps, read_committed=read_committed)

    def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, Offset | Rejected]:
        """Delete what is before an offset (-1: everything). Gives where each partition begins now."""
        with self._turn:
            return self._topics.delete_records({place: Offset(offset) for place, offset in before.items()})

    # Settings

    def describe_configs(self, resource: Resource) -> list[ConfigEntry]:
        """Every setting of a topic, broker or group."""
        with self._turn:
            return self._topics.describe_configs(resource)

    def describe_topic_configs(self, name: str) -> dict[str, str | None]:
        """The settings of a topic by name."""
        return {entry.name: entry.value for entry in self.describe_configs(Resource(ResourceType.TOPIC, name))}

    def alter_configs(
        self, resource: Resource, changes: Mapping[str, str | None], *, validate_only: bool = False
    ) -> None:
        """Set single settings; None deletes one, so that its default counts again. All of them or none."""
        wanted = {
            name: (ConfigChange.DELETE if value is None else ConfigChange.SET, value) for name, value in changes.items()
        }
        with self._turn:
            self._topics.alter_configs(resource, wanted, validate_only=validate_only)

    def describe_quotas(
        self, entity: Mapping[str, str | AnyName | None] | None = None, *, strict: bool = False
    ) -> list[EntityQuotas]:
        """What users, clients and addresses may do."""
        with self._turn:
            return quotas.describe_quotas(self._cluster, dict(entity or {}), strict=strict)

    def alter_quotas(self, entity: Mapping[str, str | None], changes: Mapping[str, float | None]) -> None:
        """Change what somebody may do; None removes a limit."""
        with self._turn:
            quotas.alter_quotas(self._cluster, entity, changes)

    # Groups and their offsets

    def list_groups(self, *, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[GroupListing]:
        """The groups of all brokers; all, or those in some states and of some types."""
        with self._turn:
            return self._groups.list_groups(states=states, types=types)

    def describe_groups(self, group_ids: Iterable[str]) -> dict[str, GroupDescription | Rejected]:
        """State, coordinator and members of groups."""
        with self._turn:
            return self._groups.describe_groups(group_ids)

    def describe_group(self, group_id: str) -> GroupDescription:
        return accepted(self.describe_groups([group_id])[group_id])

    def delete_groups(self, group_ids: Iterable[str]) -> dict[str, Rejected | None]:
        """Delete groups that have no members, with all their offsets."""
        with self._turn:
            return self._groups.delete_groups(group_ids)

    def list_group_offsets(self, group_id: str) -> dict[TopicPartition, CommittedOffset | Rejected]:
        """The committed offsets of a group."""
        with self._turn:
            return self._groups.offsets_of(group_id)

    def group_lag(self, group_id: str) -> dict[TopicPartition, Lag]:
        """How far a group is behind the end of each partition in which it has an offset."""
        with self._turn:
            return self._groups.lags(self._groups.offsets_of(group_id))

    def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset | int]
    ) -> dict[TopicPartition, Rejected | None]:
        """Set offsets of a group that has no members."""
        wanted = {
            place: offset if isinstance(offset, CommittedOffset) else CommittedOffset(Offset(offset))
            for place, offset in offsets.items()
        }
        with self._turn:
            return self._groups.alter_offsets(group_id, wanted)

    def reset_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition], target: offset_resets.Target
    ) -> dict[TopicPartition, Rejected | None]:
        """Move a group that has no members to an offset, a time, the beginning or the end (`offset_resets`)."""
        with self._turn:
            plan = offset_resets.plan_reset(self._cluster, group_id, partitions, target)
            return self._groups.alter_offsets(group_id, plan.commits())

    def delete_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, Rejected | None]:
        """Delete offsets of topics to which the group is not subscribed."""
        with self._turn:
            return self._groups.delete_offsets(group_id, partitions)

    # Transactions

    def list_transactions(self) -> list[TransactionListing]:
        """The transactions of all coordinators."""
        with self._turn:
            return self._transactions.list_transactions()

    def describe_transaction(self, transactional_id: str) -> TransactionDescription:
        with self._turn:
            return self._transactions.describe(transactional_id)

    def terminate_transaction(self, transactional_id: str) -> None:
        """End the open transaction of a producer, and shut that producer out."""
        with self._turn:
            self._transactions.terminate(transactional_id)

    # The cluster

    def describe_cluster(self) -> ClusterDescription:
        """The cluster's id, controller and brokers."""
        with self._turn:
            return self._topics.describe_cluster()

    def describe_log_dirs(
        self, node_id: int, partitions: Mapping[TopicName, Sequence[PartitionIndex]] | None = None
    ) -> list[LogDir]:
        """What one broker keeps in its directories."""
        with self._turn:
            return self._topics.describe_log_dirs(NodeId(node_id), partitions)

    def unregister_broker(self, node_id: int) -> None:
        """Forget a broker that will not come back."""
        with self._turn:
            self._topics.unregister_broker(NodeId(node_id))

    def elect_leaders(
        self, kind: ElectionType = ElectionType.PREFERRED, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, Rejected | None]:
        """Elect leaders of some partitions, or of all that need it."""
        with self._turn:
            return elections.elect_leaders(self._cluster, kind, partitions)

    def alter_reassignments(
        self, wanted: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, Rejected | None]:
        """Let partitions move to other replicas, the preferred leader first; None calls a move off."""
        nodes = {
            place: None if replicas is None else [NodeId(node) for node in replicas]
            for place, replicas in wanted.items()
        }
        with self._turn:
            return reassignments.alter_reassignments(self._cluster, nodes)

    def list_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """The partitions that are on their way."""
        with self._turn:
            return reassignments.list_reassignments(self._cluster, partitions)

    def describe_quorum(self) -> quorum.Quorum:
        """The voters and observers of the metadata."""
        with self._turn:
            return quorum.describe_quorum(self._cluster)
