"""Commands on topics: create, delete, add partitions. Called through the runtime by the handlers of those APIs.

Each topic of a request succeeds or fails alone; the records of all that succeed are one atomic batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from tidelog.controller.assignment import check_replicas, new_partition
from tidelog.controller.placement import Loads, place
from tidelog.controller.settings import check_new_topic_settings
from tidelog.controller.state import Controller
from tidelog.machine.runtime import RECORDS_PER_BATCH_MAX, Result
from tidelog.metadata.image import (
    DIRECTORY_LOST,
    DIRECTORY_MIGRATING,
    DIRECTORY_UNASSIGNED,
    ResourceType,
    TopicImage,
)
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import ZERO_UUID, NodeId, PartitionIndex, TopicId
from tidelog.model.names import METADATA_TOPIC, check_topic_name, collision_key
from tidelog.wire.messages.metadata_records import ConfigRecord, RemoveTopicRecord, TopicRecord
from tidelog.wire.schema import Message

# In a request: as the controller's settings say.
DEFAULT: Final = -1
RESERVED_TOPIC_IDS: Final = frozenset({ZERO_UUID, DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED, DIRECTORY_LOST})

OutcomeT = TypeVar("OutcomeT")
# Called with the number of partitions that a topic's change concerns, before it is planned. Raises ProtocolError.
Charge = Callable[[int], None]


def for_free(partitions: int) -> None:
    """No quota binds who asks."""


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. `assignments` names partition and replicas by hand; then the two numbers stay DEFAULT."""

    name: str
    partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: Sequence[tuple[int, Sequence[int]]] = ()
    settings: Sequence[tuple[str, str | None]] = ()


@dataclass(frozen=True, slots=True)
class TopicCreated:
    """What became of a NewTopic; without an error, how it was, or would be, created."""

    name: str
    error: ProtocolError | None = None
    topic_id: TopicId = ZERO_UUID
    partitions: int = -1
    replication_factor: int = -1
    settings: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True)
class DeletedTopic:
    """What became of a topic to delete. Name and id as far as they are known."""

    name: str | None
    topic_id: TopicId
    error: ProtocolError | None = None


@dataclass(frozen=True, slots=True)
class MorePartitions:
    """Partitions to add: the new total, and by hand the replicas of each new one, or None."""

    name: str
    total: int
    assignments: Sequence[Sequence[int]] | None = None


@dataclass(frozen=True, slots=True)
class PartitionsAdded:
    """What became of a MorePartitions."""

    name: str
    error: ProtocolError | None = None


def create(
    controller: Controller, topics: Sequence[NewTopic], *, validate_only: bool = False, charge: Charge = for_free
) -> Result[Message, list[TopicCreated]]:
    """Create topics, or only say whether that would work."""
    plan = _CreatePlan(controller, charge)
    named = Counter(topic.name for topic in topics)
    outcomes = []
    for topic in topics:
        try:
            if named[topic.name] > 1:
                raise ProtocolError(ErrorCode.INVALID_REQUEST, f"Topic '{topic.name}' is named twice in one request.")
            outcomes.append(plan.add(topic))
        except ProtocolError as error:
            outcomes.append(TopicCreated(topic.name, error))
    return _result(plan.records, outcomes, validate_only)


class _CreatePlan:
    """The records of one create command as it goes through its topics."""

    def __init__(self, controller: Controller, charge: Charge) -> None:
        self.controller = controller
        self._charge = charge
        self.records: list[Message] = []
        self.loads = controller.loads.copy()
        self._names_by_collision_key: dict[str, str] = {}

    def add(self, topic: NewTopic) -> TopicCreated:
        """Plan one topic whole, or raise and plan nothing of it."""
        self._check_name(topic.name)
        settings = check_new_topic_settings(self.controller, topic.settings)
        replicas = self._replicas_by_hand(topic) if topic.assignments else self._replicas_placed(topic)
        self._charge(len(replicas))
        topic_id = self._new_topic_id()
        partitions = [
            new_partition(self.controller, topic_id, PartitionIndex(index), nodes)
            for index, nodes in enumerate(replicas)
        ]
        self.records.append(TopicRecord(name=topic.name, topic_id=topic_id))
        self.records += [
            ConfigRecord(resource_type=ResourceType.TOPIC, resource_name=topic.name, name=name, value=value)
            for name, value in settings
        ]
        self.records += partitions
        self._names_by_collision_key[collision_key(topic.name)] = topic.name
        return TopicCreated(
            name=topic.name,
            topic_id=topic_id,
            partitions=len(replicas),
            replication_factor=len(replicas[0]),
            settings=settings,
        )

    def _check_name(self, name: str) -> None:
        if name == METADATA_TOPIC:
            raise ProtocolError(ErrorCode.INVALID_REQUEST, f"Topic '{name}' is internal and cannot be created.")
        if self.controller.image.topic(name) is not None:
            raise ProtocolError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        check_topic_name(name)
        key = collision_key(name)
        others = self.controller.names_by_collision_key.get(key)
        other = min(others) if others else self._names_by_collision_key.get(key)
        if other is not None:
            raise ProtocolError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic '{other}'."
            )

    def _replicas_by_hand(self, topic: NewTopic) -> list[tuple[NodeId, ...]]:
        if topic.replication_factor != DEFAULT or topic.partitions != DEFAULT:
            raise ProtocolError(
                ErrorCode.INVALID_REQUEST,
                "Replicas were assigned by hand: neither a number of partitions nor a replication factor may be set.",
            )
        by_index: dict[int, tuple[NodeId, ...]] = {}
        expected: int | None = None
        for index, replicas in topic.assignments:
            if index in by_index:
                raise ProtocolError(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Partition {index} was assigned more than once."
                )
            by_index[index] = check_replicas(self.controller, replicas, expected)
            expected = len(replicas)
        if by_index.keys() != set(range(len(by_index))):
            raise ProtocolError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Partitions must be numbered from 0 without a gap."
            )
        return [by_index[index] for index in range(len(by_index))]

    def _replicas_placed(self, topic: NewTopic) -> list[tuple[NodeId, ...]]:
        policy = self.controller.policy
        if topic.replication_factor < DEFAULT or topic.replication_factor == 0:
            raise ProtocolError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                "Replication factor must be larger than 0, or -1 to use the default value.",
            )
        if topic.partitions < DEFAULT or topic.partitions == 0:
            raise ProtocolError(
                ErrorCode.INVALID_PARTITIONS,
                "Number of partitions must be larger than 0, or -1 to use the default value.",
            )
        partitions = policy.default_partitions if topic.partitions == DEFAULT else topic.partitions
        _check_size(partitions)
        factor = policy.default_replication_factor if topic.replication_factor == DEFAULT else topic.replication_factor
        return place(self.controller.image.brokers.values(), partitions, factor, self.loads)

    def _new_topic_id(self) -> TopicId:
        while True:
            topic_id = self.controller.entropy.uuid()
            if topic_id not in RESERVED_TOPIC_IDS and self.controller.image.topic_by_id(topic_id) is None:
                return topic_id


def delete(
    controller: Controller,
    names: Sequence[str] = (),
    topic_ids: Sequence[TopicId] = (),
    *,
    charge: Charge = for_free,
) -> Result[Message, list[DeletedTopic]]:
    """Delete topics by name, then by id."""
    if not controller.policy.delete_topics:
        raise ProtocolError(ErrorCode.TOPIC_DELETION_DISABLED, "Deletion of topics is disabled on this cluster.")
    image = controller.image
    records: list[Message] = []
    outcomes: list[DeletedTopic] = []
    removed: set[TopicId] = set()

    def remove(name: str | None, topic_id: TopicId, topic: TopicImage | None, times: int, unknown: ErrorCode) -> None:
        error = None
        if topic is None:
            error = ProtocolError(unknown, "This server does not host this topic.")
        elif times > 1 or topic.topic_id in removed:
            error = ProtocolError(ErrorCode.INVALID_REQUEST, f"Topic '{topic.name}' is named twice in one request.")
        else:
            name, topic_id = topic.name, topic.topic_id
            try:
                charge(len(topic.partitions))
                removed.add(topic.topic_id)
                records.append(RemoveTopicRecord(topic_id=topic.topic_id))
            except ProtocolError as refused:
                error = refused
        outcomes.append(DeletedTopic(name, topic_id, error))

    for name, times in Counter(names).items():
        remove(name, ZERO_UUID, image.topic(name), times, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    for topic_id, times in Counter(topic_ids).items():
        remove(None, topic_id, image.topic_by_id(topic_id), times, ErrorCode.UNKNOWN_TOPIC_ID)
    return _result(records, outcomes)


def add_partitions(
    controller: Controller, topics: Sequence[MorePartitions], *, validate_only: bool = False, charge: Charge = for_free
) -> Result[Message, list[PartitionsAdded]]:
    """Give topics more partitions, or only say whether that would work. There is no way to have fewer."""
    named = Counter(topic.name for topic in topics)
    loads = controller.loads.copy()
    records: list[Message] = []
    outcomes = []
    for topic in topics:
        try:
            if named[topic.name] > 1:
                raise ProtocolError(ErrorCode.INVALID_REQUEST, f"Topic '{topic.name}' is named twice in one request.")
            records += _more_partitions(controller, topic, loads, charge)
            outcomes.append(PartitionsAdded(topic.name))
        except ProtocolError as error:
            outcomes.append(PartitionsAdded(topic.name, error))
    return _result(records, outcomes, validate_only)


def _more_partitions(controller: Controller, wanted: MorePartitions, loads: Loads, charge: Charge) -> list[Message]:
    topic = controller.image.topic(wanted.name)
    if topic is None:
        raise ProtocolError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{wanted.name}' does not exist.")
    present = len(topic.partitions)
    if wanted.total <= present:
        raise ProtocolError(
            ErrorCode.INVALID_PARTITIONS,
            f"Topic '{topic.name}' has {present} partition(s) already; {wanted.total} would not be more.",
        )
    additional = wanted.total - present
    _check_size(additional)
    factor = len(topic.partitions[PartitionIndex(0)].replicas)
    if wanted.assignments is None:
        present_replicas = [partition.replicas for partition in topic.partitions.values()]
        replicas = place(controller.image.brokers.values(), additional, factor, loads, present_replicas)
    elif len(wanted.assignments) != additional:
        raise ProtocolError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"{additional} partition(s) would be added, but replicas were assigned for {len(wanted.assignments)}.",
        )
    else:
        replicas = [check_replicas(controller, nodes, factor) for nodes in wanted.assignments]
    charge(additional)
    return [
        new_partition(controller, topic.topic_id, PartitionIndex(present + number), nodes)
        for number, nodes in enumerate(replicas)
    ]


def _check_size(partitions: int) -> None:
    # Before placing them: a number out of all reason must not cost time or memory.
    if partitions > RECORDS_PER_BATCH_MAX:
        raise ProtocolError(ErrorCode.POLICY_VIOLATION, f"{partitions} partitions are too many for one request.")


def _result(
    records: list[Message], outcomes: list[OutcomeT], validate_only: bool = False
) -> Result[Message, list[OutcomeT]]:
    if len(records) > RECORDS_PER_BATCH_MAX:
        raise ProtocolError(ErrorCode.POLICY_VIOLATION, "This request is too large to be done at once.")
    return Result(() if validate_only else records, outcomes)
