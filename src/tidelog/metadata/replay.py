"""Metadata records -> the next image and what changed. The same code at start-up and live, on every node.

A burst of records copies each mapping of the image at most once; what no record touches is shared with the old image.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from tidelog.metadata.delta import Delta, changed_partitions
from tidelog.metadata.draft import Draft
from tidelog.metadata.image import (
    BrokerRegistration,
    ClusterImage,
    ConfigResource,
    ControllerRegistration,
    LeaderRecoveryState,
    PartitionRegistration,
    QuotaEntity,
    ResourceType,
    TopicImage,
)
from tidelog.metadata.told import endpoints_of, features_of
from tidelog.model.ids import LeaderEpoch, NodeId, Offset, PartitionIndex, ProducerId, TopicId, TopicName
from tidelog.wire.messages import metadata_records as wire
from tidelog.wire.schema import Message

# A PartitionChangeRecord with this leader keeps the leader and its epoch.
LEADER_UNCHANGED: Final = NodeId(-2)
# A PartitionChangeRecord with this recovery state keeps it.
RECOVERY_UNCHANGED: Final = -1


class InconsistentMetadataError(Exception):
    """A record that does not fit what the log said before it: the log is damaged, or of a newer version."""


def replay(image: ClusterImage, records: Iterable[Message], offset: Offset, epoch: LeaderEpoch) -> Delta:
    """Apply records, of which the last has `offset`, written in the controller's `epoch`."""
    draft = ImageDraft(image)
    for record in records:
        draft.apply(record)
    return draft.finish(offset, epoch)


class ImageDraft:
    """The next image while records are applied to it."""

    def __init__(self, before: ClusterImage) -> None:
        self._before = before
        self.brokers: Draft[NodeId, BrokerRegistration] = Draft(before.brokers)
        self.controllers: Draft[NodeId, ControllerRegistration] = Draft(before.controllers)
        self.topics_by_name: Draft[TopicName, TopicImage] = Draft(before.topics_by_name)
        self.topics_by_id: Draft[TopicId, TopicImage] = Draft(before.topics_by_id)
        self.configs: Draft[ConfigResource, Mapping[str, str]] = Draft(before.configs)
        self.features: Draft[str, int] = Draft(before.features)
        self.quotas: Draft[QuotaEntity, Mapping[str, float]] = Draft(before.quotas)
        self.next_producer_id = before.next_producer_id
        # Inner mappings that belong to this draft alone and may be written in place.
        self._own_partitions: dict[TopicId, dict[PartitionIndex, PartitionRegistration]] = {}
        self._own_configs: dict[ConfigResource, dict[str, str]] = {}
        # Records between a begin and an end that may yet be aborted (KIP-868); None outside of any.
        self._held_back: list[Message] | None = None

    def apply(self, record: Message) -> None:
        match record:
            case wire.BeginTransactionRecord():
                self._held_back = []
            case wire.EndTransactionRecord():
                whole, self._held_back = self._held_back or [], None
                for held in whole:
                    self._apply_now(held)
            case wire.AbortTransactionRecord():
                self._held_back = None
            case _ if self._held_back is not None:
                self._held_back.append(record)
            case _:
                self._apply_now(record)

    def _apply_now(self, record: Message) -> None:
        step = STEPS.get(type(record))
        if step is None:
            raise InconsistentMetadataError(f"This version cannot read the metadata record {type(record).__name__}.")
        step(self, record)

    def finish(self, offset: Offset, epoch: LeaderEpoch) -> Delta:
        if self._held_back is not None:
            raise InconsistentMetadataError("A transaction of metadata records does not end within its batch.")
        before = self._before
        after = ClusterImage(
            brokers=self.brokers.finish(),
            controllers=self.controllers.finish(),
            topics_by_name=self.topics_by_name.finish(),
            topics_by_id=self.topics_by_id.finish(),
            configs=self.configs.finish(),
            features=self.features.finish(),
            quotas=self.quotas.finish(),
            next_producer_id=self.next_producer_id,
            offset=offset,
            epoch=epoch,
        )
        created: dict[TopicId, TopicImage] = {}
        removed: dict[TopicId, TopicImage] = {}
        changed: dict[TopicId, tuple[PartitionIndex, ...]] = {}
        for topic_id in self.topics_by_id.touched:
            old, new = before.topics_by_id.get(topic_id), after.topics_by_id.get(topic_id)
            if old is not None and new is not None:
                indexes = changed_partitions(old, new)
                if indexes:
                    changed[topic_id] = indexes
            elif new is not None:
                created[topic_id] = new
            elif old is not None:
                removed[topic_id] = old
        return Delta(
            before=before,
            after=after,
            topics_created=created,
            topics_removed=removed,
            partitions_changed=changed,
            configs_changed=self.configs.changed(),
            brokers_changed=self.brokers.changed(),
            controllers_changed=self.controllers.changed(),
            features_changed=self.features.changed(),
            quotas_changed=self.quotas.changed(),
        )

    def topic(self, topic_id: TopicId) -> TopicImage:
        topic = self.topics_by_id.get(topic_id)
        if topic is None:
            raise InconsistentMetadataError(f"A record names topic id {topic_id}, which does not exist.")
        return topic

    def put_partition(self, topic_id: TopicId, index: PartitionIndex, partition: PartitionRegistration) -> None:
        own = self._own_partitions.get(topic_id)
        if own is None:
            topic = self.topic(topic_id)
            own = self._own_partitions[topic_id] = dict(topic.partitions)
            opened = TopicImage(topic.name, topic_id, own)
            self.topics_by_id.put(topic_id, opened)
            self.topics_by_name.put(topic.name, opened)
        own[index] = partition

    def put_config(self, resource: ConfigResource, name: str, value: str | None) -> None:
        own = self._own_configs.get(resource)
        if own is None:
            own = self._own_configs[resource] = dict(self.configs.get(resource) or {})
        if value is None:
            own.pop(name, None)
        else:
            own[name] = value
        if own:
            self.configs.put(resource, own)
        else:
            self.remove_configs(resource)

    def remove_configs(self, resource: ConfigResource) -> None:
        self.configs.remove(resource)
        self._own_configs.pop(resource, None)

    def remove_topic(self, topic_id: TopicId) -> None:
        topic = self.topic(topic_id)
        self.topics_by_id.remove(topic_id)
        self.topics_by_name.remove(topic.name)
        self._own_partitions.pop(topic_id, None)
        self.remove_configs(ConfigResource(ResourceType.TOPIC, topic.name))

    def broker(self, broker_id: int, epoch: int) -> BrokerRegistration:
        broker = self.brokers.get(NodeId(broker_id))
        if broker is None or broker.epoch != epoch:
            raise InconsistentMetadataError(
                f"A record names broker {broker_id} epoch {epoch}, which is not registered."
            )
        return broker


def _topic(draft: ImageDraft, record: wire.TopicRecord) -> None:
    name = TopicName(record.name)
    if draft.topics_by_name.get(name) is not None:
        raise InconsistentMetadataError(f"Topic {name!r} is created twice.")
    topic = TopicImage(name, record.topic_id, {})
    draft.topics_by_id.put(record.topic_id, topic)
    draft.topics_by_name.put(name, topic)


def _partition(draft: ImageDraft, record: wire.PartitionRecord) -> None:
    draft.put_partition(record.topic_id, PartitionIndex(record.partition_id), partition_from(record))


def _partition_change(draft: ImageDraft, record: wire.PartitionChangeRecord) -> None:
    index = PartitionIndex(record.partition_id)
    before = draft.topic(record.topic_id).partitions.get(index)
    if before is None:
        raise InconsistentMetadataError(f"Partition {index} of {record.topic_id} changes, but does not exist.")
    draft.put_partition(record.topic_id, index, changed(before, record))


def partition_from(record: wire.PartitionRecord) -> PartitionRegistration:
    """A partition as its PartitionRecord tells it."""
    return PartitionRegistration(
        replicas=_nodes(record.replicas),
        isr=_nodes(record.isr),
        leader=NodeId(record.leader),
        leader_epoch=LeaderEpoch(record.leader_epoch),
        partition_epoch=record.partition_epoch,
        leader_recovery_state=LeaderRecoveryState(record.leader_recovery_state),
        removing_replicas=_nodes(record.removing_replicas),
        adding_replicas=_nodes(record.adding_replicas),
        eligible_leader_replicas=_nodes(record.eligible_leader_replicas),
        last_known_elr=_nodes(record.last_known_elr),
        directories=tuple(record.directories),
    )


def changed(before: PartitionRegistration, record: wire.PartitionChangeRecord) -> PartitionRegistration:
    """A partition after a change. Naming a leader, even the same one, begins a new leader epoch."""
    elected = record.leader != LEADER_UNCHANGED
    recovery = record.leader_recovery_state
    return PartitionRegistration(
        replicas=before.replicas if record.replicas is None else _nodes(record.replicas),
        isr=before.isr if record.isr is None else _nodes(record.isr),
        leader=NodeId(record.leader) if elected else before.leader,
        leader_epoch=LeaderEpoch(before.leader_epoch + elected),
        partition_epoch=before.partition_epoch + 1,
        leader_recovery_state=(
            before.leader_recovery_state if recovery == RECOVERY_UNCHANGED else LeaderRecoveryState(recovery)
        ),
        removing_replicas=(
            before.removing_replicas if record.removing_replicas is None else _nodes(record.removing_replicas)
        ),
        adding_replicas=(before.adding_replicas if record.adding_replicas is None else _nodes(record.adding_replicas)),
        eligible_leader_replicas=(
            before.eligible_leader_replicas
            if record.eligible_leader_replicas is None
            else _nodes(record.eligible_leader_replicas)
        ),
        last_known_elr=before.last_known_elr if record.last_known_elr is None else _nodes(record.last_known_elr),
        directories=before.directories if record.directories is None else tuple(record.directories),
    )


def _nodes(ids: Iterable[int] | None) -> tuple[NodeId, ...]:
    return () if ids is None else tuple(map(NodeId, ids))


def _remove_topic(draft: ImageDraft, record: wire.RemoveTopicRecord) -> None:
    draft.remove_topic(record.topic_id)


def _clear_elr(draft: ImageDraft, record: wire.ClearElrRecord) -> None:
    """Forget the eligible leaders of one topic, or of all when the name is empty."""
    if record.topic_name:
        named = draft.topics_by_name.get(TopicName(record.topic_name))
        topics = [] if named is None else [named]
    else:
        topics = list(draft.topics_by_name.finish().values())
    for topic in topics:
        for index, partition in list(topic.partitions.items()):
            if partition.eligible_leader_replicas or partition.last_known_elr:
                cleared = wire.PartitionChangeRecord(eligible_leader_replicas=[], last_known_elr=[])
                draft.put_partition(topic.topic_id, index, changed(partition, cleared))


def _config(draft: ImageDraft, record: wire.ConfigRecord) -> None:
    resource = ConfigResource(ResourceType(record.resource_type), record.resource_name)
    draft.put_config(resource, record.name, record.value)


def _register_broker(draft: ImageDraft, record: wire.RegisterBrokerRecord) -> None:
    broker_id = NodeId(record.broker_id)
    draft.brokers.put(
        broker_id,
        BrokerRegistration(
            broker_id=broker_id,
            epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            endpoints=endpoints_of(record.end_points),
            features=features_of(record.features),
            rack=record.rack,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            directories=tuple(record.log_dirs),
        ),
    )


def _change_broker(draft: ImageDraft, record: wire.BrokerRegistrationChangeRecord) -> None:
    """Fenced: 1 fences, -1 unfences, 0 keeps. Controlled shutdown begins with 1 and never ends but by registering."""
    broker = draft.broker(record.broker_id, record.broker_epoch)
    fenced = broker.fenced if record.fenced == 0 else record.fenced > 0
    draft.brokers.put(
        broker.broker_id,
        BrokerRegistration(
            broker_id=broker.broker_id,
            epoch=broker.epoch,
            incarnation_id=broker.incarnation_id,
            endpoints=broker.endpoints,
            features=broker.features,
            rack=broker.rack,
            fenced=fenced,
            in_controlled_shutdown=broker.in_controlled_shutdown or record.in_controlled_shutdown > 0,
            directories=tuple(record.log_dirs) or broker.directories,
        ),
    )


def _fence_broker(draft: ImageDraft, record: wire.FenceBrokerRecord) -> None:
    _change_broker(draft, wire.BrokerRegistrationChangeRecord(broker_id=record.id, broker_epoch=record.epoch, fenced=1))


def _unfence_broker(draft: ImageDraft, record: wire.UnfenceBrokerRecord) -> None:
    _change_broker(
        draft, wire.BrokerRegistrationChangeRecord(broker_id=record.id, broker_epoch=record.epoch, fenced=-1)
    )


def _unregister_broker(draft: ImageDraft, record: wire.UnregisterBrokerRecord) -> None:
    draft.brokers.remove(draft.broker(record.broker_id, record.broker_epoch).broker_id)


def _register_controller(draft: ImageDraft, record: wire.RegisterControllerRecord) -> None:
    controller_id = NodeId(record.controller_id)
    draft.controllers.put(
        controller_id,
        ControllerRegistration(
            controller_id=controller_id,
            incarnation_id=record.incarnation_id,
            endpoints=endpoints_of(record.end_points),
            features=features_of(record.features),
        ),
    )


def _feature_level(draft: ImageDraft, record: wire.FeatureLevelRecord) -> None:
    if record.feature_level == 0:
        draft.features.remove(record.name)
    else:
        draft.features.put(record.name, record.feature_level)


def _client_quota(draft: ImageDraft, record: wire.ClientQuotaRecord) -> None:
    entity = QuotaEntity(tuple(sorted((part.entity_type, part.entity_name) for part in record.entity)))
    limits = dict(draft.quotas.get(entity) or {})
    if record.remove:
        limits.pop(record.key, None)
    else:
        limits[record.key] = record.value
    if limits:
        draft.quotas.put(entity, limits)
    else:
        draft.quotas.remove(entity)


def _producer_ids(draft: ImageDraft, record: wire.ProducerIdsRecord) -> None:
    draft.next_producer_id = ProducerId(record.next_producer_id)


def _nothing(draft: ImageDraft, record: wire.NoOpRecord) -> None:
    """A record that only shows that the controller is alive."""


STEPS: Final[Mapping[type[Message], Callable[[ImageDraft, Any], None]]] = {
    wire.TopicRecord: _topic,
    wire.PartitionRecord: _partition,
    wire.PartitionChangeRecord: _partition_change,
    wire.RemoveTopicRecord: _remove_topic,
    wire.ClearElrRecord: _clear_elr,
    wire.ConfigRecord: _config,
    wire.RegisterBrokerRecord: _register_broker,
    wire.BrokerRegistrationChangeRecord: _change_broker,
    wire.FenceBrokerRecord: _fence_broker,
    wire.UnfenceBrokerRecord: _unfence_broker,
    wire.UnregisterBrokerRecord: _unregister_broker,
    wire.RegisterControllerRecord: _register_controller,
    wire.FeatureLevelRecord: _feature_level,
    wire.ClientQuotaRecord: _client_quota,
    wire.ProducerIdsRecord: _producer_ids,
    wire.NoOpRecord: _nothing,
}
