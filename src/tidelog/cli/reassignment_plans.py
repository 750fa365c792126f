"""Plans of which broker holds which replica: in Kafka's JSON, made anew, and the throttles while they are carried out.

Shared by `tidelog cluster reassign` and `kafka-reassign-partitions`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import UUID

import msgspec

from tidelog.cli.failures import BadInput
from tidelog.model.ids import NodeId, PartitionIndex, TopicName, TopicPartition

if TYPE_CHECKING:
    from tidelog.client.admin import Admin
    from tidelog.client.core.metadata import Node
    from tidelog.client.reassignments import Reassignment

ANY_LOG_DIR: Final = "any"
VERSION: Final = 1
BROKER_THROTTLES: Final = (
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
)
LEADER_THROTTLE: Final = "leader.replication.throttled.replicas"
FOLLOWER_THROTTLE: Final = "follower.replication.throttled.replicas"

Plan = dict[TopicPartition, tuple[NodeId, ...]]
# In which directory of its broker a replica is or shall be.
Directories = dict[tuple[TopicPartition, NodeId], str]


class _Row(msgspec.Struct):
    topic: str
    partition: int
    replicas: list[int]
    log_dirs: list[str] | None = None


class _PlanFile(msgspec.Struct):
    partitions: list[_Row] = []
    version: int = VERSION


class _TopicRow(msgspec.Struct):
    topic: str


class _TopicsFile(msgspec.Struct):
    topics: list[_TopicRow] = []
    version: int = VERSION


def read_plan(path: str) -> tuple[Plan, Directories]:
    """The plan in a file, with the directories it names. BadInput, in Kafka's words, for one that cannot be."""
    try:
        read = msgspec.json.decode(Path(path).read_bytes(), type=_PlanFile)
    except msgspec.MsgspecError as error:
        raise BadInput(f"{path}: {error}") from None
    _check_version(read.version)
    if not read.partitions:
        raise BadInput("Partition reassignment list cannot be empty")
    if any(not row.replicas for row in read.partitions):
        raise BadInput("Partition replica list cannot be empty")
    places = [TopicPartition(TopicName(row.topic), PartitionIndex(row.partition)) for row in read.partitions]
    if twice := _twice(places):
        raise BadInput(f"Partition reassignment contains duplicate topic partitions: {_joined(twice)}")
    repeated = {place: _twice(row.replicas) for place, row in zip(places, read.partitions, strict=True)}
    problems = [f"{place} contains multiple entries for {_joined(nodes)}" for place, nodes in repeated.items() if nodes]
    if problems:
        raise BadInput(f"Partition replica lists may not contain duplicate entries: {'. '.join(problems)}")
    plan = {place: tuple(map(NodeId, row.replicas)) for place, row in zip(places, read.partitions, strict=True)}
    directories: Directories = {}
    for place, row in zip(places, read.partitions, strict=True):
        named = row.log_dirs if row.log_dirs is not None else [ANY_LOG_DIR] * len(row.replicas)
        if len(named) != len(row.replicas):
            raise BadInput(
                f"Size of replicas list {row.replicas} is different from size of log dirs list "
                f"[{', '.join(named)}] for partition {place}"
            )
        rows = zip(plan[place], named, strict=True)
        directories |= {(place, node): directory for node, directory in rows if directory != ANY_LOG_DIR}
    return plan, directories


def read_topics(path: str) -> list[TopicName]:
    """The topics in a file of `--topics-to-move-json-file`."""
    try:
        read = msgspec.json.decode(Path(path).read_bytes(), type=_TopicsFile)
    except msgspec.MsgspecError:
        raise BadInput("The input string is not a valid JSON") from None
    _check_version(read.version)
    names = [row.topic for row in read.topics]
    if twice := _twice(names):
        raise BadInput(f"List of topics to reassign contains duplicate entries: [{_joined(twice)}]")
    return [TopicName(name) for name in names]


def write_plan(plan: Plan, directories: Directories | None = None) -> str:
    """The plan as Kafka writes it."""
    named = directories or {}
    rows = [
        {
            "topic": place.topic,
            "partition": place.partition,
            "replicas": list(plan[place]),
            "log_dirs": [named.get((place, node), ANY_LOG_DIR) for node in plan[place]],
        }
        for place in sorted(plan)
    ]
    return msgspec.json.encode({"version": VERSION, "partitions": rows}).decode()


def current_plan(admin: Admin, topics: Iterable[TopicName]) -> Plan:
    """Where the replicas of some topics are."""
    from tidelog.client.errors import Rejected

    plan: Plan = {}
    for name, topic in admin.describe_topics(topics).items():
        if isinstance(topic, Rejected):
            raise BadInput(f"Topic {name} not found.")
        plan |= {TopicPartition(name, one.index): one.replicas for one in topic.partitions}
    return plan


def located(admin: Admin, plan: Plan) -> Directories:
    """In which directories the replicas of a plan are; without those that are nowhere yet."""
    partitions: dict[TopicName, list[PartitionIndex]] = {}
    for place in plan:
        partitions.setdefault(place.topic, []).append(place.partition)
    there = {node.id for node in admin.describe_cluster().brokers}
    return {
        (replica.partition, node): directory.path
        for node in sorted({node for replicas in plan.values() for node in replicas} & there)
        for directory in admin.describe_log_dirs(node, partitions)
        for replica in directory.replicas
        if not replica.is_future
    }


def spread_over(current: Plan, nodes: Sequence[Node], replication_factor: int | None, *, racks: bool) -> Plan:
    """The same partitions, spread evenly over some brokers, as the controller would place new ones."""
    from tidelog.controller.placement import Loads, place
    from tidelog.metadata.image import BrokerRegistration

    brokers = [
        BrokerRegistration(node.id, 0, UUID(int=node.id), {}, {}, rack=node.rack if racks else None, fenced=False)
        for node in nodes
    ]
    loads, plan = Loads(), Plan()
    for topic in dict.fromkeys(one.topic for one in sorted(current)):
        places = [one for one in sorted(current) if one.topic == topic]
        factor = replication_factor or len(current[places[0]])
        if factor > len(brokers):
            raise BadInput(
                f"The target replication factor of {factor} cannot be reached because only {len(brokers)} broker(s) "
                "are registered."
            )
        plan.update(zip(places, place(brokers, len(places), factor, loads), strict=True))
    return plan


def check_brokers(admin: Admin, nodes: Iterable[NodeId]) -> None:
    """BadInput for a broker that is not there."""
    there = {node.id for node in admin.describe_cluster().brokers}
    for node in nodes:
        if node not in there:
            raise BadInput(f"Unknown broker id {node}")


def throttle(
    admin: Admin, current: Plan, wanted: Plan, moving: Mapping[TopicPartition, Reassignment], bytes_per_second: int
) -> None:
    """Let no broker send or receive more than this for the partitions that move."""
    from tidelog.client.core.described import ConfigChange, Resource, ResourceType

    moves: dict[TopicPartition, tuple[set[NodeId], set[NodeId]]] = {
        place: (set(one.replicas) - set(one.adding), set(one.adding)) for place, one in moving.items()
    }
    for place, replicas in wanted.items():
        sources = moves[place][0] if place in moves else set(current[place])
        moves[place] = (sources, set(replicas) - sources)
    for topic in dict.fromkeys(place.topic for place in moves):
        of_topic = {place: ends for place, ends in moves.items() if place.topic == topic}
        leaders = sorted(f"{place.partition}:{node}" for place, (sources, _) in of_topic.items() for node in sources)
        followers = sorted(f"{place.partition}:{node}" for place, (_, targets) in of_topic.items() for node in targets)
        admin.alter_configs(
            Resource(ResourceType.TOPIC, topic),
            {
                LEADER_THROTTLE: (ConfigChange.SET, ",".join(leaders)),
                FOLLOWER_THROTTLE: (ConfigChange.SET, ",".join(followers)),
            },
        )
    for node in sorted({node for ends in moves.values() for nodes in ends for node in nodes}):
        rate = (ConfigChange.SET, str(bytes_per_second))
        admin.alter_configs(Resource(ResourceType.BROKER, str(node)), dict.fromkeys(BROKER_THROTTLES[:2], rate))


def clear_throttles(admin: Admin, topics: Iterable[TopicName], nodes: Iterable[NodeId]) -> None:
    """Take back what `throttle` set."""
    from tidelog.client.core.described import ConfigChange, Resource, ResourceType

    removed = (ConfigChange.DELETE, None)
    for node in nodes:
        admin.alter_configs(Resource(ResourceType.BROKER, str(node)), dict.fromkeys(BROKER_THROTTLES, removed))
    for topic in topics:
        changes = dict.fromkeys((LEADER_THROTTLE, FOLLOWER_THROTTLE), removed)
        admin.alter_configs(Resource(ResourceType.TOPIC, topic), changes)


def _check_version(version: int) -> None:
    if version != VERSION:
        raise BadInput(f"Not supported version field value {version}")


def _twice(values: Sequence[object]) -> list[object]:
    return [value for value in dict.fromkeys(values) if list(values).count(value) > 1]


def _joined(values: Iterable[object]) -> str:
    return ",".join(map(str, values))
