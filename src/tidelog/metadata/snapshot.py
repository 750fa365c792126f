"""An image -> the records that build it again: what a metadata snapshot holds. Never reads or writes a file."""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.metadata.image import (
    BrokerRegistration,
    ClusterImage,
    ControllerRegistration,
    PartitionRegistration,
    TopicImage,
)
from tidelog.model.ids import NO_NODE, PartitionIndex, TopicId
from tidelog.wire.messages import metadata_records as wire
from tidelog.wire.schema import Message


def records_of(image: ClusterImage) -> Iterator[Message]:
    """Every record needed, in an order in which each one finds what it refers to. Features come first (KIP-778)."""
    for name, level in image.features.items():
        yield wire.FeatureLevelRecord(name=name, feature_level=level)
    for controller in image.controllers.values():
        yield controller_record(controller)
    for broker in image.brokers.values():
        yield broker_record(broker)
    for topic in image.topics_by_id.values():
        yield from _topic_records(topic)
    for resource, settings in image.configs.items():
        for name, value in settings.items():
            yield wire.ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=name, value=value)
    for entity, limits in image.quotas.items():
        parts = [wire.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.parts]
        for key, limit in limits.items():
            yield wire.ClientQuotaRecord(entity=parts, key=key, value=limit, remove=False)
    if image.next_producer_id:
        # Which broker got the last block does not matter any more.
        yield wire.ProducerIdsRecord(broker_id=NO_NODE, broker_epoch=-1, next_producer_id=image.next_producer_id)


def partition_record(
    topic_id: TopicId, index: PartitionIndex, partition: PartitionRegistration
) -> wire.PartitionRecord:
    """The record that creates a partition just as it is."""
    return wire.PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=list(partition.replicas),
        isr=list(partition.isr),
        removing_replicas=list(partition.removing_replicas),
        adding_replicas=list(partition.adding_replicas),
        leader=partition.leader,
        leader_recovery_state=partition.leader_recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=list(partition.directories),
        eligible_leader_replicas=list(partition.eligible_leader_replicas) or None,
        last_known_elr=list(partition.last_known_elr) or None,
    )


def broker_record(broker: BrokerRegistration) -> wire.RegisterBrokerRecord:
    """The record that registers a broker just as it is."""
    return wire.RegisterBrokerRecord(
        broker_id=broker.broker_id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=[
            wire.BrokerEndpoint(
                name=point.name, host=point.host, port=point.port, security_protocol=point.security_protocol
            )
            for point in broker.endpoints.values()
        ],
        features=[
            wire.BrokerFeature(name=name, min_supported_version=levels.lowest, max_supported_version=levels.highest)
            for name, levels in broker.features.items()
        ],
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=list(broker.directories),
    )


def controller_record(controller: ControllerRegistration) -> wire.RegisterControllerRecord:
    return wire.RegisterControllerRecord(
        controller_id=controller.controller_id,
        incarnation_id=controller.incarnation_id,
        end_points=[
            wire.ControllerEndpoint(
                name=point.name, host=point.host, port=point.port, security_protocol=point.security_protocol
            )
            for point in controller.endpoints.values()
        ],
        features=[
            wire.ControllerFeature(name=name, min_supported_version=levels.lowest, max_supported_version=levels.highest)
            for name, levels in controller.features.items()
        ],
    )


def _topic_records(topic: TopicImage) -> Iterator[Message]:
    yield wire.TopicRecord(name=topic.name, topic_id=topic.topic_id)
    for index, partition in topic.partitions.items():
        yield partition_record(topic.topic_id, index, partition)
