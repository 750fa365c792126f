"""What the coming and going of a broker means for the partitions it holds: the records that move their leadership.

Called by `brokers.py`; the choice for one partition is made in `elections.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tidelog.controller import elections
from tidelog.controller.rules import RuleBook
from tidelog.controller.state import Controller, PartitionKey
from tidelog.metadata.image import PartitionRegistration, TopicImage
from tidelog.metadata.replay import changed
from tidelog.model.ids import NodeId
from tidelog.wire.messages.metadata_records import PartitionChangeRecord


def departed(controller: Controller, broker: NodeId, *, lost: bool = False) -> Iterator[PartitionChangeRecord]:
    """The broker serves no more: it leaves the ISR, and others lead, as far as there are any.

    `lost`: it did not stop in an orderly way, so that it may lack what it had, and is no eligible leader (KIP-966).
    """
    gone = (broker,) if lost else ()
    others = _active(controller) - {broker}
    rules = RuleBook(controller)
    for key, topic, partition in _partitions_of(controller, broker):
        if broker in partition.isr or (lost and broker in partition.eligible_leader_replicas):
            record = elections.change(*key, partition, others, rules.of(topic.name), without=(broker,), lost=gone)
            if record is not None:
                yield record


def returned(controller: Controller, broker: NodeId) -> Iterator[PartitionChangeRecord]:
    """The broker serves again: it leads what nobody leads, where it may. One that is about to go leads nothing."""
    if controller.image.brokers[broker].in_controlled_shutdown:
        return
    live = _active(controller) | {broker}
    rules = RuleBook(controller)
    for key, topic, partition in _partitions_of(controller, broker):
        if not partition.has_leader:
            record = elections.change(*key, partition, live, rules.of(topic.name))
            if record is not None:
                yield record


def restarted(controller: Controller, broker: NodeId) -> Iterator[PartitionChangeRecord]:
    """The broker went and is back at once: both steps in one record for each partition, in one new leader epoch."""
    others = _active(controller) - {broker}
    rules = RuleBook(controller)
    for key, topic, partition in _partitions_of(controller, broker):
        its = rules.of(topic.name)
        gone = elections.change(*key, partition, others, its, without=(broker,)) if broker in partition.isr else None
        between = partition if gone is None else changed(partition, gone)
        back = None if between.has_leader else elections.change(*key, between, others | {broker}, its)
        record = _joined(key, gone, back)
        if record is not None:
            yield record


def leaderless(controller: Controller) -> Iterator[PartitionChangeRecord]:
    """Lead again whatever nobody leads although somebody could. Looks at every partition of the cluster."""
    live = _active(controller)
    rules = RuleBook(controller)
    for topic in controller.image.topics_by_id.values():
        for index, partition in topic.partitions.items():
            if not partition.has_leader:
                record = elections.change(topic.topic_id, index, partition, live, rules.of(topic.name))
                if record is not None:
                    yield record


def leads_any(controller: Controller, broker: NodeId) -> bool:
    return any(partition.leader == broker for _, _, partition in _partitions_of(controller, broker))


def _active(controller: Controller) -> set[NodeId]:
    return {broker.broker_id for broker in controller.image.brokers.values() if broker.active}


def _partitions_of(
    controller: Controller, broker: NodeId
) -> Iterator[tuple[PartitionKey, TopicImage, PartitionRegistration]]:
    """The partitions with a replica on a broker, in the order in which it got them."""
    topics = controller.image.topics_by_id
    for key in controller.partitions_by_broker.get(broker, ()):
        topic = topics[key.topic_id]
        yield key, topic, topic.partitions[key.partition]


def _joined(
    key: PartitionKey, first: PartitionChangeRecord | None, second: PartitionChangeRecord | None
) -> PartitionChangeRecord | None:
    """Two changes, one after the other, as one."""
    if first is None or second is None:
        return second or first
    blank = PartitionChangeRecord(partition_id=key.partition, topic_id=key.topic_id)
    later = {name: getattr(second, name) for name in second.__struct_fields__}
    return msgspec.structs.replace(
        first, **{name: value for name, value in later.items() if value != getattr(blank, name)}
    )
