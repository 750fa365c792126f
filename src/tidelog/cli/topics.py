"""`tidelog topics`: create, list, describe, alter, delete."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tidelog.cli.failures import naming_topic
from tidelog.cli.options import KeyValue, bootstrap_option, connect, format_option
from tidelog.cli.output import Json, say, write_json, write_table
from tidelog.model.ids import TopicName

if TYPE_CHECKING:
    from tidelog.client.core.described import TopicDescription


@click.group()
def topics() -> None:
    """Create, list, describe, alter and delete topics."""


@topics.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME…")
@click.option(
    "-p", "--partitions", type=click.IntRange(min=1), help="Number of partitions; the broker's default without."
)
@click.option("-r", "--replication-factor", type=click.IntRange(min=1), help="Copies of each partition.")
@click.option(
    "-c", "--config", "configs", type=KeyValue(), multiple=True, help="A setting of the topic; may be repeated."
)
@click.option("--if-not-exists", is_flag=True, help="A topic that exists already is no failure.")
@bootstrap_option
@format_option
def create(
    names: tuple[str, ...],
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[tuple[str, str], ...],
    if_not_exists: bool,
    bootstrap: str,
    format_: str,
) -> int:
    """Create topics."""
    from tidelog.client.admin import Admin
    from tidelog.client.core.described import BROKER_DEFAULT, NewTopic
    from tidelog.client.errors import Rejected
    from tidelog.model.errors import ErrorCode

    new = [
        NewTopic(TopicName(name), partitions or BROKER_DEFAULT, replication_factor or BROKER_DEFAULT, dict(configs))
        for name in dict.fromkeys(names)
    ]
    created: list[Json] = []
    failed = False
    with connect(bootstrap) as cluster:
        for name, answer in Admin(cluster).create_topics(new).items():
            if isinstance(answer, Rejected):
                exists = answer.code == ErrorCode.TOPIC_ALREADY_EXISTS
                failed = failed or not (exists and if_not_exists)
                say(f"Topic '{name}' exists already." if exists else f"Topic '{name}' was not created: {answer}")
                continue
            created.append(
                {
                    "name": name,
                    "id": str(answer.id),
                    "partitions": answer.partitions,
                    "replication_factor": answer.replication_factor,
                }
            )
            say(f"Created topic '{name}' with {_partitions(answer.partitions)}.")
    if format_ == "json":
        write_json(created)
    return int(failed)


@topics.command("list")
@click.option("--internal/--no-internal", default=False, help="Show the topics that Kafka keeps for itself, too.")
@bootstrap_option
@format_option
def list_(internal: bool, bootstrap: str, format_: str) -> None:
    """List topics."""
    from tidelog.client.admin import Admin

    with connect(bootstrap) as cluster:
        found = [topic for topic in Admin(cluster).list_topics() if internal or not topic.internal]
    if format_ == "json":
        write_json(
            [
                {
                    "name": topic.name,
                    "id": str(topic.id),
                    "internal": topic.internal,
                    "partitions": len(topic.partitions),
                    "replication_factor": len(topic.partitions[0].replicas) if topic.partitions else 0,
                }
                for topic in found
            ]
        )
        return
    if not found:
        say("There are no topics yet. Create one with: tidelog topics create NAME")
        return
    write_table(
        ["topic", "partitions", "replicas"],
        [
            (topic.name, len(topic.partitions), len(topic.partitions[0].replicas) if topic.partitions else 0)
            for topic in found
        ],
    )


@topics.command()
@click.argument("names", nargs=-1, metavar="[NAME]…")
@bootstrap_option
@format_option
def describe(names: tuple[str, ...], bootstrap: str, format_: str) -> int:
    """Partitions, leaders, replicas and settings of topics; of all without a NAME."""
    from tidelog.client.admin import Admin, accepted
    from tidelog.client.errors import Rejected

    described: list[Json] = []
    failed = False
    with connect(bootstrap) as cluster:
        admin = Admin(cluster)
        wanted = [TopicName(name) for name in names] or [topic.name for topic in admin.list_topics()]
        all_configs = admin.describe_topic_configs(wanted)
        for answer in admin.describe_topics(wanted).values():
            if isinstance(answer, Rejected):
                say(f"Error: {answer}")
                failed = True
                continue
            entries = accepted(all_configs[answer.name])
            configs = {entry.name: entry.value for entry in entries if not entry.is_default}
            described.append(_as_json(answer, configs))
            if format_ == "table":
                _show(answer, configs)
    if format_ == "json":
        write_json(described)
    return int(failed)


@topics.command()
@click.argument("name")
@click.option("-p", "--partitions", type=click.IntRange(min=1), required=True, help="The new number of partitions.")
@bootstrap_option
@format_option
def alter(name: str, partitions: int, bootstrap: str, format_: str) -> None:
    """Let a topic have more partitions. (Settings: tidelog configs alter.)"""
    from tidelog.client.admin import Admin, accepted

    topic = TopicName(name)
    with connect(bootstrap) as cluster, naming_topic(name):
        accepted(Admin(cluster).create_partitions({topic: partitions}).get(topic))
    say(f"Topic '{name}' has {_partitions(partitions)} now.")
    if format_ == "json":
        write_json({"name": name, "partitions": partitions})


@topics.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME…")
@click.option("--if-exists", is_flag=True, help="A topic that does not exist is no failure.")
@bootstrap_option
@format_option
def delete(names: tuple[str, ...], if_exists: bool, bootstrap: str, format_: str) -> int:
    """Delete topics with all that they hold."""
    from tidelog.client.admin import Admin
    from tidelog.model.errors import ErrorCode

    deleted: list[str] = []
    failed = False
    with connect(bootstrap) as cluster:
        answers = Admin(cluster).delete_topics([TopicName(name) for name in dict.fromkeys(names)])
    for name, problem in answers.items():
        if problem is None:
            deleted.append(name)
            say(f"Deleted topic '{name}'.")
        else:
            missing = problem.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            failed = failed or not (missing and if_exists)
            say(f"Topic '{name}' does not exist." if missing else f"Topic '{name}' was not deleted: {problem}")
    if format_ == "json":
        write_json(deleted)
    return int(failed)


def _partitions(count: int) -> str:
    return "1 partition" if count == 1 else f"{count} partitions"


def _as_json(topic: TopicDescription, configs: dict[str, str | None]) -> Json:
    return {
        "name": topic.name,
        "id": str(topic.id),
        "internal": topic.internal,
        "configs": configs,
        "partitions": [
            {
                "partition": partition.index,
                "leader": partition.leader,
                "leader_epoch": partition.leader_epoch,
                "replicas": partition.replicas,
                "isr": partition.isr,
                "offline": partition.offline,
                "eligible_leaders": partition.eligible_leaders,
            }
            for partition in topic.partitions
        ],
    }


def _show(topic: TopicDescription, configs: dict[str, str | None]) -> None:
    from rich.markup import escape

    from tidelog.cli.output import console_for_results

    console = console_for_results()
    settings = "  ".join(f"{name}={value}" for name, value in sorted(configs.items()))
    console.print(f"[bold]{escape(topic.name)}[/]  [dim]{topic.id}[/]")
    if settings:
        console.print(escape(settings), style="cyan")
    # Replicas that are not in sync and yet have all that was acknowledged (KIP-966); most of the time there are none.
    with_eligible = any(partition.eligible_leaders for partition in topic.partitions)
    write_table(
        ["partition", "leader", "epoch", "replicas", "in sync", *(["eligible"] if with_eligible else [])],
        [
            (
                partition.index,
                "none" if partition.leader < 0 else partition.leader,
                partition.leader_epoch,
                ",".join(map(str, partition.replicas)),
                ",".join(map(str, partition.isr)),
                *([",".join(map(str, partition.eligible_leaders or ()))] if with_eligible else []),
            )
            for partition in topic.partitions
        ],
    )
    console.print()
