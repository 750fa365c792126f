"""kafka-topics: create, alter, list, describe and delete topics."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from tidelog.cli.failures import BadInput, explain
from tidelog.cli.kafka.arguments import KafkaParser, cluster_of
from tidelog.cli.kafka.topic_filter import TopicFilter
from tidelog.model.ids import NodeId, TopicName

if TYPE_CHECKING:
    from tidelog.client.admin import Admin
    from tidelog.client.core.described import PartitionDescription, TopicDescription

ACTIONS: Final = ("list", "describe", "create", "alter", "delete")
REPLICATION_FACTOR_MAX: Final = 32767
PARTITIONS_PER_ANSWER: Final = 2000
MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"

# Which option goes with which actions; anything else is a mistake that Kafka's command names, too.
ONLY_WITH: Final = {
    "replication-factor": ("create",),
    "replica-assignment": ("create", "alter"),
    "partitions": ("create", "alter"),
    "config": ("create",),
    "if-exists": ("alter", "delete", "describe"),
    "if-not-exists": ("create",),
    "exclude-internal": ("list", "describe"),
    "topic-id": ("describe",),
    "under-replicated-partitions": ("describe",),
    "unavailable-partitions": ("describe",),
    "under-min-isr-partitions": ("describe",),
    "at-min-isr-partitions": ("describe",),
    "topics-with-overrides": ("describe",),
}


def main(arguments: Sequence[str]) -> int:
    """Run the command; the exit code."""
    from tidelog.client.admin import Admin

    parser = _parser()
    options = parser.read(arguments)
    action = _checked_action(parser, options)
    try:
        with cluster_of(options) as cluster:
            ACTS[action](Admin(cluster), options)
    except Exception as error:
        sentence = explain(error)
        if sentence is None:
            raise
        print(f"Error while executing topic command : {sentence}")
        return 1
    return 0


def _parser() -> KafkaParser:
    parser = KafkaParser("kafka-topics", "Creates, deletes, describes and changes topics.")
    parser.bootstrap()
    parser.flag("--list", "List all topics.")
    parser.flag("--create", "Create a topic.")
    parser.flag("--delete", "Delete a topic.")
    parser.flag("--alter", "Change the number of partitions.")
    parser.flag("--describe", "Show partitions, leaders, replicas and settings.")
    parser.option("--topic", "TOPIC", "The topic; except with --create a regular expression.")
    parser.option("--topic-id", "ID", "The topic to describe.")
    parser.option("--config", "NAME=VALUE", "A setting of the new topic.", action="append")
    parser.option("--delete-config", "NAME", argparse.SUPPRESS)
    parser.option("--partitions", "N", "The number of partitions.", type=int)
    parser.option("--replication-factor", "N", "The number of replicas of each partition.", type=int)
    parser.option("--replica-assignment", "ID:ID,ID:ID,…", "Replicas of each partition.")
    parser.flag("--under-replicated-partitions", "Describe only partitions with too few replicas in sync.")
    parser.flag("--unavailable-partitions", "Describe only partitions without a leader.")
    parser.flag("--under-min-isr-partitions", "Describe only partitions below min.insync.replicas.")
    parser.flag("--at-min-isr-partitions", "Describe only partitions exactly at min.insync.replicas.")
    parser.flag("--topics-with-overrides", "Describe only topics with settings of their own.")
    parser.flag("--if-exists", "Do nothing when there is no such topic.")
    parser.flag("--if-not-exists", "Do nothing when the topic is there already.")
    parser.flag("--exclude-internal", "Leave internal topics out.")
    parser.option(
        "--partition-size-limit-per-response",
        "N",
        "Partitions to ask for at once.",
        type=int,
        default=PARTITIONS_PER_ANSWER,
    )
    parser.old("--partition", "--partitions")
    return parser


def _checked_action(parser: KafkaParser, options: argparse.Namespace) -> str:
    given = [action for action in ACTIONS if getattr(options, action)]
    if len(given) != 1:
        parser.error("Command must include exactly one action: --list, --describe, --create, --alter or --delete")
    (action,) = given
    if options.bootstrap_server is None:
        parser.error("--bootstrap-server must be specified")
    if action == "describe" and options.topic and options.topic_id:
        parser.error("Only topic id or topic name may be used with --describe, not both.")
    if action not in ("list", "describe"):
        parser.require(options, "topic")
    if action == "alter":
        parser.require(options, "partitions")
    for name, actions in ONLY_WITH.items():
        if getattr(options, name.replace("-", "_")) not in (None, False) and action not in actions:
            parser.error(f'Option "[{name}]" can\'t be used with option "[{action}]"')
    if options.replica_assignment and action == "create" and (options.partitions or options.replication_factor):
        parser.error('Option "[replica-assignment]" can\'t be used with option "[partitions]"')
    return action


def _create(admin: Admin, options: argparse.Namespace) -> None:
    from tidelog.client.admin import accepted
    from tidelog.client.core.described import BROKER_DEFAULT, NewTopic
    from tidelog.client.errors import Rejected
    from tidelog.model.errors import ErrorCode

    name = TopicName(options.topic)
    if "." in name or "_" in name:
        print(
            "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could "
            "collide. To avoid issues it is best to use either, but not both."
        )
    configs = _configs(options.config)
    factor, partitions = options.replication_factor, options.partitions
    if factor is not None and not 1 <= factor <= REPLICATION_FACTOR_MAX:
        raise BadInput(f"The replication factor must be between 1 and {REPLICATION_FACTOR_MAX} inclusive")
    if partitions is not None and partitions < 1:
        raise BadInput("The partitions must be greater than 0")
    new = NewTopic(
        name, partitions or BROKER_DEFAULT, factor or BROKER_DEFAULT, configs, _assignments(options.replica_assignment)
    )
    answer = admin.create_topics([new])[name]
    exists = isinstance(answer, Rejected) and answer.code == ErrorCode.TOPIC_ALREADY_EXISTS
    if not (exists and options.if_not_exists):
        accepted(answer)
        print(f"Created topic {name}.")


def _list(admin: Admin, options: argparse.Namespace) -> None:
    print("\n".join(_matching(admin, options)))


def _alter(admin: Admin, options: argparse.Namespace) -> None:
    from tidelog.client.admin import accepted

    names = _existing(admin, options)
    assignments = _assignments(options.replica_assignment)
    new_assignments = None
    if assignments:
        counts = {topic.name: len(topic.partitions) for topic in admin.list_topics()}
        new_assignments = {name: assignments[counts[name] :] for name in names}
    wanted = dict.fromkeys(names, options.partitions)
    for problem in admin.create_partitions(wanted, assignments=new_assignments).values():
        accepted(problem)


def _delete(admin: Admin, options: argparse.Namespace) -> None:
    from tidelog.client.admin import accepted

    names = _existing(admin, options)
    if names:
        for problem in admin.delete_topics(names).values():
            accepted(problem)


def _describe(admin: Admin, options: argparse.Namespace) -> None:
    from tidelog.client.admin import accepted

    names = _existing(admin, options)
    only = [option for option in REPORTS if getattr(options, option)]
    live = {node.id for node in admin.describe_cluster().brokers} if "unavailable_partitions" in only else set()
    limit = options.partition_size_limit_per_response
    all_configs = admin.describe_topic_configs(names)
    for answer in admin.describe_topics(names, partitions_per_answer=limit).values():
        topic = accepted(answer)
        entries = accepted(all_configs[topic.name])
        configs = {entry.name: entry.value for entry in entries if not entry.is_default}
        if not only and (configs or not options.topics_with_overrides):
            print(_topic_line(topic, configs))
        if options.topics_with_overrides:
            continue
        minimum = next((int(entry.value or 1) for entry in entries if entry.name == MIN_INSYNC_REPLICAS), 1)
        for partition in topic.partitions:
            if not only or any(REPORTS[report](partition, minimum, live) for report in only):
                print(_partition_line(topic, partition))


def _matching(admin: Admin, options: argparse.Namespace) -> list[TopicName]:
    topics = [topic for topic in admin.list_topics() if not (topic.internal and options.exclude_internal)]
    if options.topic is None:
        return [topic.name for topic in topics]
    wanted = TopicFilter(options.topic)
    return [topic.name for topic in topics if wanted.matches(topic.name)]


def _existing(admin: Admin, options: argparse.Namespace) -> list[TopicName]:
    if options.topic_id:
        from tidelog.log.checkpoints import encode_uuid

        names = [topic.name for topic in admin.list_topics() if encode_uuid(topic.id) == options.topic_id]
        if not names and not options.if_exists:
            raise BadInput(f"TopicId '{options.topic_id}' does not exist as expected")
        return names
    names = _matching(admin, options)
    if options.topic and not names and not options.if_exists:
        raise BadInput(f"Topic '{options.topic}' does not exist as expected")
    return names


def _configs(pairs: Sequence[str] | None) -> dict[str, str]:
    split = [re.split(r"\s*=\s*", pair, maxsplit=1) for pair in pairs or ()]
    if any(len(pair) != 2 for pair in split):
        raise BadInput(
            'requirement failed: Invalid topic config: all configs to be added must be in the format "key=val".'
        )
    return {key.strip(): value.strip() for key, value in split}


def _assignments(text: str | None) -> tuple[tuple[NodeId, ...], ...]:
    if not text:
        return ()
    try:
        assignments = tuple(tuple(NodeId(int(node)) for node in partition.split(":")) for partition in text.split(","))
    except ValueError:
        raise BadInput(f"'{text}' is no list of broker ids such as 1:2,2:1.") from None
    for index, nodes in enumerate(assignments):
        if len(set(nodes)) != len(nodes):
            twice = ",".join(str(node) for node in sorted({node for node in nodes if nodes.count(node) > 1}))
            raise BadInput(f"Partition replica lists may not contain duplicate entries: {twice}")
        if len(nodes) != len(assignments[0]):
            raise BadInput(f"Partition {index} has different replication factor: {list(nodes)}")
    return assignments


def _topic_line(topic: TopicDescription, configs: Mapping[str, str | None]) -> str:
    from tidelog.log.checkpoints import encode_uuid

    settings = ",".join(f"{name}={value}" for name, value in configs.items())
    return (
        f"Topic: {topic.name}\tTopicId: {encode_uuid(topic.id)}\tPartitionCount: {len(topic.partitions)}"
        f"\tReplicationFactor: {topic.replication_factor}\tConfigs: {settings}"
    )


def _partition_line(topic: TopicDescription, partition: PartitionDescription) -> str:
    leader = "none" if partition.leader < 0 else partition.leader
    return (
        f"\tTopic: {topic.name}\tPartition: {partition.index}\tLeader: {leader}"
        f"\tReplicas: {_ids(partition.replicas)}\tIsr: {_ids(partition.isr)}"
        f"\tElr: {_ids(partition.eligible_leaders)}\tLastKnownElr: {_ids(partition.last_known_leaders)}"
    )


def _ids(nodes: Sequence[NodeId] | None) -> str:
    return "N/A" if nodes is None else ",".join(map(str, nodes))


# What each report of --describe looks for.
Report = Callable[["PartitionDescription", int, set[NodeId]], bool]
REPORTS: Final[Mapping[str, Report]] = {
    "under_replicated_partitions": lambda partition, _, __: len(partition.isr) < len(partition.replicas),
    "unavailable_partitions": lambda partition, _, live: partition.leader not in live,
    "under_min_isr_partitions": lambda partition, minimum, _: partition.leader < 0 or len(partition.isr) < minimum,
    "at_min_isr_partitions": lambda partition, minimum, _: len(partition.isr) == minimum,
}
ACTS: Final[Mapping[str, Callable[[Admin, argparse.Namespace], None]]] = {
    "list": _list,
    "describe": _describe,
    "create": _create,
    "alter": _alter,
    "delete": _delete,
}
