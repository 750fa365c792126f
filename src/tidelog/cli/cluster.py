"""`tidelog cluster`: its brokers and their state, the metadata quorum, where replicas are, who leads."""

from __future__ import annotations

import contextlib
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import click

from tidelog.cli.failures import BadInput
from tidelog.cli.features import features
from tidelog.cli.options import bootstrap_option, connect, format_option
from tidelog.cli.output import Json, say, write_json, write_table
from tidelog.model.ids import NodeId, TopicPartition

if TYPE_CHECKING:
    from tidelog.client.admin import Admin
    from tidelog.client.core.described import ClusterDescription
    from tidelog.client.core.metadata import Topic

WAIT_POLL_S: Final = 0.2


class NodeIds(click.ParamType[tuple[NodeId, ...]]):
    """`1,2,3`."""

    name = "1,2,3"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[NodeId, ...]:
        if isinstance(value, tuple):
            return value
        try:
            nodes = tuple(NodeId(int(part)) for part in str(value).split(","))
        except ValueError:
            self.fail(f"'{value}' is no list of brokers such as 1,2,3.", param, ctx)
        if len(set(nodes)) < len(nodes):
            self.fail(f"'{value}' names a broker twice.", param, ctx)
        return nodes


@click.group(invoke_without_command=True)
@bootstrap_option
@format_option
@click.pass_context
def cluster(context: click.Context, bootstrap: str, format_: str) -> None:
    """The brokers of a cluster, its quorum, its leaders and replicas."""
    if context.invoked_subcommand is None:
        _status(bootstrap, format_)


@cluster.command()
@bootstrap_option
@format_option
def status(bootstrap: str, format_: str) -> None:
    """Brokers, how much each leads and holds, and partitions that need attention."""
    _status(bootstrap, format_)


@cluster.command()
@bootstrap_option
@format_option
def quorum(bootstrap: str, format_: str) -> None:
    """Who leads the metadata quorum, who votes, and how far each has read."""
    from tidelog.client.quorum import describe_quorum

    with connect(bootstrap) as connected:
        found = describe_quorum(connected)
    now_ms = int(time.time() * 1000)
    rows = [(one, "voter") for one in found.voters] + [(one, "observer") for one in found.observers]
    if format_ == "json":
        write_json(
            {
                "leader": found.leader,
                "epoch": found.epoch,
                "high_watermark": found.high_watermark,
                "replicas": [
                    {
                        "id": one.node_id,
                        "role": "leader" if one.node_id == found.leader else role,
                        "directory_id": str(one.directory_id),
                        "end_offset": one.end_offset,
                        "lag": found.end_offset - one.end_offset,
                        "last_fetch_ms": one.last_fetch_ms,
                        "last_caught_up_ms": one.last_caught_up_ms,
                    }
                    for one, role in rows
                ],
            }
        )
        return
    if sys.stdout.isatty():
        say(f"Epoch {found.epoch}, high watermark {found.high_watermark}")
    write_table(
        ["node", "role", "end offset", "behind", "last caught up"],
        [
            (
                one.node_id,
                "leader" if one.node_id == found.leader else role,
                one.end_offset,
                found.end_offset - one.end_offset,
                "now" if one.node_id == found.leader else _ago(now_ms, one.last_caught_up_ms),
            )
            for one, role in sorted(rows, key=lambda row: row[0].node_id)
        ],
    )


@cluster.command()
@click.argument("topics", nargs=-1, metavar="[TOPIC[:0,1]]…")
@click.option("--to", "brokers", type=NodeIds(), help="The brokers that shall hold the partitions, spread evenly.")
@click.option("-r", "--replication-factor", type=click.IntRange(min=1), help="As many copies as now without.")
@click.option("--throttle", "throttle_bytes", type=click.IntRange(min=0), help="Bytes per second and broker.")
@click.option("--wait", is_flag=True, help="Return when all has moved, and take the throttle back.")
@click.option("--cancel", is_flag=True, help="Call off what is under way, of these topics or of all.")
@bootstrap_option
@format_option
def reassign(
    topics: tuple[str, ...],
    brokers: tuple[NodeId, ...] | None,
    replication_factor: int | None,
    throttle_bytes: int | None,
    wait: bool,
    cancel: bool,
    bootstrap: str,
    format_: str,
) -> None:
    """Let other brokers hold partitions; without --to, show what is under way."""
    from tidelog.cli.partition_lists import named_partitions
    from tidelog.client.admin import Admin

    with connect(bootstrap) as connected:
        admin = Admin(connected)
        places = named_partitions(connected, topics)
        if cancel:
            _cancel(admin, places)
        elif brokers is not None:
            if not places:
                raise BadInput("Which topics shall move? Name them before --to.")
            _move(admin, places, brokers, replication_factor, throttle_bytes, wait)
        _show_moving(admin, places, format_)


@cluster.command("elect-leaders")
@click.argument("topics", nargs=-1, metavar="[TOPIC[:0,1]]…")
@click.option("--unclean", is_flag=True, help="Where nobody leads, any live replica, though records may be lost.")
@bootstrap_option
@format_option
def elect_leaders(topics: tuple[str, ...], unclean: bool, bootstrap: str, format_: str) -> int:
    """Give partitions back to the first of their replicas; all that need it without a TOPIC."""
    from tidelog.cli.partition_lists import named_partitions
    from tidelog.client.elections import ElectionType
    from tidelog.client.elections import elect_leaders as elect
    from tidelog.model.errors import ErrorCode

    kind = ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED
    with connect(bootstrap) as connected:
        answers = elect(connected, kind, named_partitions(connected, topics) if topics else None)
    results = {
        place: "elected"
        if rejected is None
        else "leads already"
        if rejected.code is ErrorCode.ELECTION_NOT_NEEDED
        else str(rejected)
        for place, rejected in sorted(answers.items())
    }
    if format_ == "json":
        write_json([{"topic": one.topic, "partition": one.partition, "result": results[one]} for one in results])
    elif results:
        write_table(["topic", "partition", "result"], [(*place, result) for place, result in results.items()])
    else:
        say("Every partition is led by the first of its replicas.")
    return int(any(result not in ("elected", "leads already") for result in results.values()))


cluster.add_command(features)


def _status(bootstrap: str, format_: str) -> None:
    from tidelog.client.admin import Admin
    from tidelog.client.errors import UnsupportedByBroker
    from tidelog.client.quorum import describe_quorum

    with connect(bootstrap) as connected:
        admin = Admin(connected)
        description = admin.describe_cluster()
        with contextlib.suppress(UnsupportedByBroker):
            # A broker names itself as controller: it passes on what is for the controller. The quorum knows who it is.
            description = replace(description, controller=describe_quorum(connected).leader)
        topics = admin.list_topics()
    partitions = [(topic, one) for topic in topics for one in topic.partitions]
    leaderless = [f"{topic.name}-{one.index}" for topic, one in partitions if one.leader < 0]
    behind = [f"{topic.name}-{one.index}" for topic, one in partitions if len(one.isr) < len(one.replicas)]
    if format_ == "json":
        write_json(_status_json(description, topics, leaderless, behind))
        return
    if sys.stdout.isatty():
        say(f"Cluster {description.cluster_id}")
    write_table(
        ["broker", "address", "rack", "controller", "leads", "holds", "in sync"],
        [
            (
                node.id,
                str(node),
                node.rack or "-",
                "yes" if node.id == description.controller else "",
                *_counts(topics, node.id),
            )
            for node in description.brokers
        ],
    )
    for problem, places in (("without a leader", leaderless), ("with replicas that are behind", behind)):
        if places:
            say(f"{len(places)} of {len(partitions)} partitions are {problem}: {', '.join(places[:10])}…"[:200])


def _status_json(
    description: ClusterDescription, topics: list[Topic], leaderless: list[str], behind: list[str]
) -> Json:
    return {
        "cluster_id": description.cluster_id,
        "controller": description.controller,
        "brokers": [
            {
                "id": node.id,
                "host": node.host,
                "port": node.port,
                "rack": node.rack,
                **dict(zip(("leads", "holds", "in_sync"), _counts(topics, node.id), strict=True)),
            }
            for node in description.brokers
        ],
        "partitions_without_leader": leaderless,
        "partitions_under_replicated": behind,
    }


def _counts(topics: list[Topic], node: NodeId) -> tuple[int, int, int]:
    """How many partitions a broker leads, holds, and holds in sync."""
    partitions = [one for topic in topics for one in topic.partitions]
    return (
        sum(one.leader == node for one in partitions),
        sum(node in one.replicas for one in partitions),
        sum(node in one.isr for one in partitions),
    )


def _ago(now_ms: int, at_ms: int) -> str:
    return "-" if at_ms < 0 else f"{max(now_ms - at_ms, 0) / 1000:.1f} s ago"


def _move(
    admin: Admin,
    places: list[TopicPartition],
    brokers: tuple[NodeId, ...],
    replication_factor: int | None,
    throttle_bytes: int | None,
    wait: bool,
) -> None:
    from tidelog.cli import reassignment_plans as plans
    from tidelog.client.reassignments import alter_reassignments, list_reassignments

    plans.check_brokers(admin, brokers)
    nodes = [node for node in admin.describe_cluster().brokers if node.id in brokers]
    current = plans.current_plan(admin, {one.topic for one in places})
    wanted = plans.spread_over({place: current[place] for place in places}, nodes, replication_factor, racks=True)
    if throttle_bytes is not None:
        plans.throttle(admin, current, wanted, list_reassignments(admin.cluster), throttle_bytes)
    for place, rejected in alter_reassignments(admin.cluster, wanted).items():
        if rejected is not None:
            raise BadInput(f"{place}: {rejected}")
    say(f"{len(wanted)} partitions move.")
    if not wait:
        return
    while list_reassignments(admin.cluster, places):
        time.sleep(WAIT_POLL_S)
    if throttle_bytes is not None:
        involved = {node for plan in (current, wanted) for place in places for node in plan[place]}
        plans.clear_throttles(admin, {place.topic for place in places}, sorted(involved))


def _cancel(admin: Admin, places: list[TopicPartition]) -> None:
    from tidelog.client.reassignments import alter_reassignments, list_reassignments

    moving = list_reassignments(admin.cluster, places or None)
    for place, rejected in (alter_reassignments(admin.cluster, dict.fromkeys(moving)) if moving else {}).items():
        if rejected is not None:
            raise BadInput(f"{place}: {rejected}")
    say(f"{len(moving)} moves were called off.")


def _show_moving(admin: Admin, places: list[TopicPartition], format_: str) -> None:
    from tidelog.client.reassignments import list_reassignments

    moving = sorted(list_reassignments(admin.cluster, places or None).items())
    if format_ == "json":
        write_json(
            [
                {
                    "topic": place.topic,
                    "partition": place.partition,
                    "replicas": one.replicas,
                    "adding": one.adding,
                    "removing": one.removing,
                }
                for place, one in moving
            ]
        )
    elif moving:
        rows = (
            (*place, *(",".join(map(str, nodes)) for nodes in (one.replicas, one.adding, one.removing)))
            for place, one in moving
        )
        write_table(["topic", "partition", "replicas", "adding", "removing"], rows)
    else:
        say("No partition moves.")
