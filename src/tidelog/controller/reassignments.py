"""The command AlterPartitionReassignments: move replicas to other brokers, or give a move up (KIP-455, KIP-860).

A move ends by itself: whatever changes the ISR looks whether all new replicas are in it (`moving.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

import msgspec

from tidelog.controller import elections
from tidelog.controller.assignment import check_replicas
from tidelog.controller.elections import Rules
from tidelog.controller.moving import Nodes, completed, move_to, undone
from tidelog.controller.rules import RuleBook
from tidelog.controller.state import Controller
from tidelog.machine.runtime import Result
from tidelog.metadata.image import PartitionRegistration, TopicImage
from tidelog.metadata.replay import LEADER_UNCHANGED, changed
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import NodeId, PartitionIndex
from tidelog.wire.messages.metadata_records import PartitionChangeRecord
from tidelog.wire.schema import Message


class WantedReplicas(NamedTuple):
    """Where a partition should be; None gives up the move that is under way."""

    topic: str
    partition: int
    replicas: Sequence[int] | None


class Reassigned(NamedTuple):
    """What became of it."""

    topic: str
    partition: int
    error: ProtocolError | None = None


def reassign(
    controller: Controller, wanted: Sequence[WantedReplicas], *, may_change_factor: bool = True
) -> Result[Message, list[Reassigned]]:
    """Begin or give up moves; each partition succeeds or fails alone."""
    plan = _Plan(controller, may_change_factor)
    outcomes = []
    for one in wanted:
        try:
            plan.add(one)
            outcomes.append(Reassigned(one.topic, one.partition))
        except ProtocolError as error:
            outcomes.append(Reassigned(one.topic, one.partition, error))
    return Result(plan.records, outcomes, atomic=False)


class _Plan:
    """The records of one command as it goes through its partitions."""

    def __init__(self, controller: Controller, may_change_factor: bool) -> None:
        self._controller = controller
        self._may_change_factor = may_change_factor
        self._rules = RuleBook(controller)
        self._live = {broker.broker_id for broker in controller.image.brokers.values() if broker.active}
        self.records: list[Message] = []

    def add(self, wanted: WantedReplicas) -> None:
        topic = self._controller.image.topic(wanted.topic)
        index = PartitionIndex(wanted.partition)
        partition = None if topic is None else topic.partitions.get(index)
        if topic is None or partition is None:
            raise ProtocolError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{wanted.topic}-{index} does not exist.")
        rules = self._rules.of(topic.name)
        if wanted.replicas is None:
            record: PartitionChangeRecord | None = self._give_up(topic, index, partition, rules)
        else:
            target = check_replicas(self._controller, wanted.replicas, None)
            if not self._may_change_factor and len(target) != _settled_factor(partition):
                raise ProtocolError(
                    ErrorCode.INVALID_REPLICATION_FACTOR,
                    f"The replication factor would change from {_settled_factor(partition)} to {len(target)}.",
                )
            record = self._begin(topic, index, partition, target, rules)
        if record is not None:
            self.records.append(record)

    def _begin(
        self, topic: TopicImage, index: PartitionIndex, partition: PartitionRegistration, target: Nodes, rules: Rules
    ) -> PartitionChangeRecord | None:
        replicas, removing, adding = move_to(partition, target)
        moving = msgspec.structs.replace(
            partition, replicas=replicas, removing_replicas=removing, adding_replicas=adding
        )
        if moving == partition:
            return None
        record = self._record(topic, index, partition, moving)
        if completed(moving, partition.isr) is None:
            return record
        # Nothing is added, or what is added is in sync already: the move is over as it begins.
        rest = elections.change(topic.topic_id, index, changed(partition, record), self._live, rules)
        assert rest is not None
        return rest

    def _give_up(
        self, topic: TopicImage, index: PartitionIndex, partition: PartitionRegistration, rules: Rules
    ) -> PartitionChangeRecord:
        if not partition.reassigning:
            raise ProtocolError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        replicas, isr = undone(partition)
        if not isr:
            raise ProtocolError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Only replicas that are being added are in sync: go on, or wait."
            )
        back = msgspec.structs.replace(partition, replicas=replicas, isr=isr, removing_replicas=(), adding_replicas=())
        record = self._record(topic, index, partition, back)
        record.isr = list(isr)
        # In a new epoch, whoever leads: the replicas that are let go are fenced by it.
        elected = elections.elect(back, isr, back.eligible_leader_replicas, self._live, rules)
        record.leader = elected.leader
        return record

    def _record(
        self, topic: TopicImage, index: PartitionIndex, before: PartitionRegistration, after: PartitionRegistration
    ) -> PartitionChangeRecord:
        return PartitionChangeRecord(
            partition_id=index,
            topic_id=topic.topic_id,
            leader=LEADER_UNCHANGED,
            replicas=list(after.replicas),
            removing_replicas=list(after.removing_replicas),
            adding_replicas=list(after.adding_replicas),
            directories=[self._directory(before, node) for node in after.replicas],
        )

    def _directory(self, before: PartitionRegistration, node: NodeId) -> UUID:
        return before.directory_of(node) if node in before.replicas else self._controller.directory_for(node)


def _settled_factor(partition: PartitionRegistration) -> int:
    """How many replicas the partition has when no move is under way, or had before it."""
    return len(partition.replicas) - len(partition.adding_replicas)
