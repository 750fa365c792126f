"""New partitions: from replica lists, chosen by placement or given by hand, to the records that create them."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.controller.state import Controller
from tidelog.metadata.image import PartitionRegistration
from tidelog.metadata.snapshot import partition_record
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import LeaderEpoch, NodeId, PartitionIndex, TopicId
from tidelog.wire.messages.metadata_records import PartitionRecord


def check_replicas(controller: Controller, replicas: Sequence[int], expected: int | None) -> tuple[NodeId, ...]:
    """A replica list given by hand, if each broker exists, none comes twice, and there are as many as `expected`."""
    if not replicas:
        raise _invalid("A partition was assigned no replica at all.")
    for broker in replicas:
        if broker not in controller.image.brokers:
            raise _invalid(f"A partition was assigned to broker {broker}, but no such broker is registered.")
    if len(set(replicas)) != len(replicas):
        raise _invalid(f"A partition was assigned to the same broker more than once: {list(replicas)}.")
    if expected is not None and len(replicas) != expected:
        raise _invalid(
            f"A partition was assigned {len(replicas)} replica(s), but the partitions before it have {expected}."
        )
    return tuple(map(NodeId, replicas))


def new_partition(
    controller: Controller, topic_id: TopicId, index: PartitionIndex, replicas: tuple[NodeId, ...]
) -> PartitionRecord:
    """The record of a partition that begins with all its active replicas in sync, the first of them leading."""
    brokers = controller.image.brokers
    isr = tuple(broker for broker in replicas if brokers[broker].active)
    if not isr:
        raise _invalid(f"All brokers assigned to partition {index} are fenced or in controlled shutdown.")
    registration = PartitionRegistration(
        replicas=replicas,
        isr=isr,
        leader=isr[0],
        leader_epoch=LeaderEpoch(0),
        partition_epoch=0,
        directories=tuple(map(controller.directory_for, replicas)),
    )
    return partition_record(topic_id, index, registration)


def _invalid(message: str) -> ProtocolError:
    return ProtocolError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
