"""The command ElectLeaders: give partitions back to their preferred leader, or a leader where there is none.

The choice for one partition is made in `elections.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from enum import IntEnum
from typing import Final, NamedTuple

from tidelog.controller import elections
from tidelog.controller.rules import RuleBook
from tidelog.controller.state import Controller
from tidelog.machine.runtime import Result
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import NodeId, PartitionIndex, TopicName
from tidelog.wire.messages.metadata_records import PartitionChangeRecord
from tidelog.wire.schema import Message

# Leaderships that move in one round of balancing: each move makes clients look for their leader again.
REBALANCE_MAX: Final = 1000


class ElectionType(IntEnum):
    """What is wanted; the numbers are those of ElectLeaders."""

    # The first replica, if it is in sync.
    PREFERRED = 0
    # Any live replica, where nobody leads; records may be lost.
    UNCLEAN = 1


class Elected(NamedTuple):
    """What became of one partition."""

    topic: TopicName
    partition: PartitionIndex
    error: ProtocolError | None = None


def elect_leaders(
    controller: Controller, kind: int, partitions: Sequence[tuple[str, Sequence[int]]] | None
) -> Result[Message, list[Elected]]:
    """Elect for these partitions, or for all that need it: of those that do not, nothing is then told."""
    if kind not in ElectionType.__members__.values():
        raise ProtocolError(ErrorCode.INVALID_REQUEST, f"Unknown election type {kind}")
    wanted = list(_everything(controller) if partitions is None else named(partitions))
    live = {broker.broker_id for broker in controller.image.brokers.values() if broker.active}
    rules = RuleBook(controller)
    records: list[Message] = []
    outcomes = []
    for topic, index in wanted:
        try:
            records.append(_change(controller, topic, index, ElectionType(kind), live, rules))
            outcomes.append(Elected(topic, index))
        except ProtocolError as error:
            if partitions is not None or error.code is not ErrorCode.ELECTION_NOT_NEEDED:
                outcomes.append(Elected(topic, index, error))
    # Each election is right alone, and there may be more of them than fit one batch.
    return Result(records, outcomes, atomic=False)


def _change(
    controller: Controller,
    name: TopicName,
    index: PartitionIndex,
    kind: ElectionType,
    live: set[NodeId],
    rules: RuleBook,
) -> PartitionChangeRecord:
    topic = controller.image.topic(name)
    if topic is None:
        raise ProtocolError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
    partition = topic.partitions.get(index)
    if partition is None:
        raise ProtocolError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}")
    preferred = kind is ElectionType.PREFERRED
    if partition.leader == partition.replicas[0] if preferred else partition.has_leader:
        raise ProtocolError(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
    allowed = rules.of(name) if preferred else replace(rules.of(name), unclean=True)
    record = elections.change(topic.topic_id, index, partition, live, allowed, preferred=preferred)
    if record is not None and (record.leader == partition.replicas[0] if preferred else record.leader >= 0):
        return record
    if preferred:
        raise ProtocolError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available.")
    raise ProtocolError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "Eligible topic partition leaders are not available.")


def named(partitions: Iterable[tuple[str, Sequence[int]]]) -> Iterator[tuple[TopicName, PartitionIndex]]:
    """Each partition that a request names."""
    for topic, indexes in partitions:
        for index in indexes:
            yield TopicName(topic), PartitionIndex(index)


def _everything(controller: Controller) -> Iterator[tuple[TopicName, PartitionIndex]]:
    for topic in controller.image.topics_by_name.values():
        for index in topic.partitions:
            yield topic.name, index


def rebalance(controller: Controller, elections_max: int = REBALANCE_MAX) -> Result[Message, int]:
    """Give partitions back to their preferred leaders, as many as one round may; the reply says how many."""
    live = {broker.broker_id for broker in controller.image.brokers.values() if broker.active}
    rules = RuleBook(controller)
    records: list[Message] = []
    for topic in controller.image.topics_by_id.values():
        for index, partition in topic.partitions.items():
            preferred = partition.replicas[0]
            if partition.leader != preferred and preferred in partition.isr and preferred in live:
                record = elections.change(topic.topic_id, index, partition, live, rules.of(topic.name), preferred=True)
                if record is not None:
                    records.append(record)
                if len(records) >= elections_max:
                    return Result(records, len(records), atomic=False)
    return Result(records, len(records), atomic=False)
