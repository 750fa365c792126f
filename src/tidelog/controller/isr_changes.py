"""The command AlterPartition: the leader of a partition asks for another ISR (KIP-497).

A replica joins only when its broker serves, and is the incarnation that the leader has heard from (KIP-841, KIP-903):
one that was restarted since may have lost what it had.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from tidelog.controller import elections
from tidelog.controller.brokers import check_epoch
from tidelog.controller.rules import RuleBook
from tidelog.controller.state import Controller
from tidelog.machine.runtime import Result
from tidelog.metadata.image import LeaderRecoveryState, PartitionRegistration
from tidelog.metadata.replay import changed
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import LeaderEpoch, NodeId, PartitionIndex, TopicId
from tidelog.wire.messages.metadata_records import PartitionChangeRecord
from tidelog.wire.schema import Message

# In place of a broker's epoch: the leader does not know it.
ANY_EPOCH: Final = -1


class WantedIsr(NamedTuple):
    """What the leader of one partition asks for. Each member of the ISR comes with the epoch of its broker."""

    topic_id: TopicId
    partition: PartitionIndex
    leader_epoch: LeaderEpoch
    partition_epoch: int
    isr: Sequence[tuple[NodeId, int]]
    recovery_state: int = LeaderRecoveryState.RECOVERED


class ChangedIsr(NamedTuple):
    """What became of it: the partition as it is then, or why not."""

    topic_id: TopicId
    partition: PartitionIndex
    outcome: PartitionRegistration | ProtocolError


def alter_partitions(
    controller: Controller, broker_id: NodeId, broker_epoch: int, wanted: Sequence[WantedIsr]
) -> Result[Message, list[ChangedIsr]]:
    """Change the ISR of partitions that a broker leads; each succeeds or fails alone."""
    check_epoch(controller, broker_id, broker_epoch)
    rules = RuleBook(controller)
    live = {broker.broker_id for broker in controller.image.brokers.values() if broker.active}
    records: list[Message] = []
    outcomes = []
    for one in wanted:
        try:
            record, partition = _change(controller, broker_id, one, live, rules)
            if record is not None:
                records.append(record)
            outcomes.append(ChangedIsr(one.topic_id, one.partition, partition))
        except ProtocolError as error:
            outcomes.append(ChangedIsr(one.topic_id, one.partition, error))
    return Result(records, outcomes, atomic=False)


def _change(
    controller: Controller, broker_id: NodeId, wanted: WantedIsr, live: set[NodeId], rules: RuleBook
) -> tuple[PartitionChangeRecord | None, PartitionRegistration]:
    topic = controller.image.topic_by_id(wanted.topic_id)
    if topic is None:
        raise ProtocolError(ErrorCode.UNKNOWN_TOPIC_ID)
    partition = topic.partitions.get(wanted.partition)
    if partition is None:
        raise ProtocolError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    _check(controller, broker_id, wanted, partition)
    record = elections.change(
        wanted.topic_id,
        wanted.partition,
        partition,
        live,
        rules.of(topic.name),
        in_sync=tuple(node for node, _ in wanted.isr),
    )
    recovered = wanted.recovery_state == LeaderRecoveryState.RECOVERED
    if recovered and partition.leader_recovery_state is LeaderRecoveryState.RECOVERING:
        record = record or PartitionChangeRecord(partition_id=wanted.partition, topic_id=wanted.topic_id)
        record.leader_recovery_state = LeaderRecoveryState.RECOVERED
    after = partition if record is None else changed(partition, record)
    return record, after


def _check(controller: Controller, broker_id: NodeId, wanted: WantedIsr, partition: PartitionRegistration) -> None:
    if wanted.leader_epoch > partition.leader_epoch or wanted.partition_epoch > partition.partition_epoch:
        raise ProtocolError(ErrorCode.NOT_CONTROLLER, "The leader knows a newer controller than this one.")
    if wanted.leader_epoch < partition.leader_epoch:
        raise ProtocolError(ErrorCode.FENCED_LEADER_EPOCH)
    if broker_id != partition.leader:
        raise ProtocolError(ErrorCode.INVALID_REQUEST, f"Broker {broker_id} does not lead this partition.")
    if wanted.partition_epoch < partition.partition_epoch:
        raise ProtocolError(ErrorCode.INVALID_UPDATE_VERSION)
    members = [node for node, _ in wanted.isr]
    if len(set(members)) != len(members) or not set(members) <= set(partition.replicas):
        raise ProtocolError(ErrorCode.INVALID_REQUEST, f"{members} are not replicas of this partition, once each.")
    if broker_id not in members:
        raise ProtocolError(ErrorCode.INVALID_REQUEST, "The leader is always in its ISR.")
    _check_recovery(wanted, partition)
    for node, epoch in wanted.isr:
        broker = controller.image.brokers.get(node)
        if broker is None or not broker.active or epoch not in (ANY_EPOCH, broker.epoch):
            raise ProtocolError(ErrorCode.INELIGIBLE_REPLICA, f"Broker {node} may not be in an ISR now.")


def _check_recovery(wanted: WantedIsr, partition: PartitionRegistration) -> None:
    if wanted.recovery_state != LeaderRecoveryState.RECOVERING:
        return
    if len(wanted.isr) > 1:
        raise ProtocolError(ErrorCode.INVALID_REQUEST, "A leader that recovers is alone in its ISR.")
    if partition.leader_recovery_state is LeaderRecoveryState.RECOVERED:
        raise ProtocolError(ErrorCode.INVALID_REQUEST, "A leader that has recovered does not recover again.")
