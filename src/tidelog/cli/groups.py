"""`tidelog groups`: list, describe and delete consumer groups; reset and delete their offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from tidelog.cli.failures import BadInput
from tidelog.cli.options import bootstrap_option, connect, format_option
from tidelog.cli.output import Json, say, write_json, write_table
from tidelog.model.ids import TopicPartition

if TYPE_CHECKING:
    from tidelog.client.cluster import Cluster
    from tidelog.client.core.groups import GroupDescription, GroupMember
    from tidelog.client.groups import Lag
    from tidelog.client.offset_resets import Plan, Target

NONE: Final = "-"

topic_option = click.option(
    "-t", "--topic", "topics", multiple=True, help="A topic, or some partitions: orders:0,1. May be repeated."
)


@click.group()
def groups() -> None:
    """List, describe and delete consumer groups; reset and delete their offsets."""


@groups.command("list")
@click.option("--state", "states", multiple=True, help="Only groups in this state, such as stable; may be repeated.")
@click.option("--type", "types", multiple=True, help="Only groups of this type, classic or consumer.")
@bootstrap_option
@format_option
def list_(states: tuple[str, ...], types: tuple[str, ...], bootstrap: str, format_: str) -> None:
    """List groups."""
    from tidelog.client.groups import Groups

    with connect(bootstrap) as cluster:
        found = Groups(cluster).list_groups(states=states, types=types)
    if format_ == "json":
        write_json(
            [
                {"group": group.id, "type": group.type.lower(), "state": group.state, "protocol": group.protocol_type}
                for group in found
            ]
        )
    elif found:
        write_table(
            ["group", "type", "state"], [(group.id, group.type.lower() or NONE, group.state) for group in found]
        )
    else:
        say("There are no such groups.")


@groups.command()
@click.argument("names", nargs=-1, metavar="[GROUP]…")
@click.option("-m", "--members", is_flag=True, help="Show the members and what each of them has.")
@bootstrap_option
@format_option
def describe(names: tuple[str, ...], members: bool, bootstrap: str, format_: str) -> int:
    """State, members, offsets and lag of groups; of all without a GROUP."""
    from tidelog.client.errors import Rejected
    from tidelog.client.groups import Groups

    described: list[Json] = []
    failed = False
    with connect(bootstrap) as cluster:
        client = Groups(cluster)
        wanted = names or [group.id for group in client.list_groups() if group.is_consumers]
        for name, group in client.describe_groups(wanted).items():
            if isinstance(group, Rejected):
                say(f"Group '{name}' cannot be described: {group}")
                failed = True
                continue
            owners = {place: member for member in group.members for place in member.assignment}
            lags = client.lags(client.offsets_of(name), owners)
            described.append(_as_json(group, lags, owners))
            if format_ != "json":
                _show(group, lags, owners, members)
    if format_ == "json":
        write_json(described)
    return int(failed)


@groups.command("reset-offsets")
@click.argument("group")
@topic_option
@click.option(
    "--to",
    "where",
    metavar="WHERE",
    help="earliest, latest, current, an offset, or a time: 2026-01-31T12:00, @-1h or PT1H for an hour ago.",
)
@click.option("--shift-by", type=int, help="This many records on; back with a minus.")
@click.option("--from-file", "file", type=click.Path(exists=True, dir_okay=False), help="Rows topic,partition,offset.")
@click.option("--export", is_flag=True, help="Write the new offsets as rows that --from-file reads.")
@click.option("--execute", is_flag=True, help="Do it. Without, only show what would be done.")
@bootstrap_option
@format_option
def reset_offsets(
    group: str,
    topics: tuple[str, ...],
    where: str | None,
    shift_by: int | None,
    file: str | None,
    export: bool,
    execute: bool,
    bootstrap: str,
    format_: str,
) -> int:
    """Let a GROUP without members go on elsewhere, in some topics or in all that it has offsets in."""
    from tidelog.cli.partition_lists import named_partitions, read_offsets, show_offsets
    from tidelog.client.groups import Groups
    from tidelog.client.offset_resets import ShiftBy, ToGiven, plan_reset

    if sum(given is not None for given in (where, shift_by, file)) != 1:
        raise click.UsageError("Give one of --to, --shift-by and --from-file.")
    target: Target
    with connect(bootstrap) as cluster:
        if file is not None:
            given = read_offsets(file, [group]).get(group, {})
            target, partitions = ToGiven(given), list(given)
        else:
            target = ShiftBy(shift_by) if shift_by is not None else _target(where or "")
            partitions = named_partitions(cluster, topics) if topics else list(Groups(cluster).offsets_of(group))
        if not partitions:
            raise BadInput(f"Group '{group}' has no offsets yet: name topics with --topic.")
        _check_inactive(cluster, group)
        plan = plan_reset(cluster, group, partitions, target)
        _say_corrections(plan)
        failures = _execute(cluster, group, plan) if execute else 0
    if export:
        click.echo(show_offsets({group: plan.offsets}, with_group=False), nl=False)
    elif format_ == "json":
        write_json([_place(place, offset=offset) for place, offset in plan.offsets.items()])
    else:
        write_table(["topic", "partition", "new offset"], [(*place, offset) for place, offset in plan.offsets.items()])
    if not execute:
        say("Nothing was changed. Add --execute to do it.")
    return int(failures > 0)


@groups.command()
@click.argument("names", nargs=-1, required=True, metavar="GROUP…")
@bootstrap_option
@format_option
def delete(names: tuple[str, ...], bootstrap: str, format_: str) -> int:
    """Delete groups without members, with all their offsets."""
    from tidelog.client.groups import Groups

    with connect(bootstrap) as cluster:
        answers = Groups(cluster).delete_groups(dict.fromkeys(names))
    for name, rejected in answers.items():
        say(f"Deleted group '{name}'." if rejected is None else f"Group '{name}' was not deleted: {rejected}")
    if format_ == "json":
        write_json([name for name, rejected in answers.items() if rejected is None])
    return int(any(answers.values()))


@groups.command("delete-offsets")
@click.argument("group")
@topic_option
@bootstrap_option
@format_option
def delete_offsets(group: str, topics: tuple[str, ...], bootstrap: str, format_: str) -> int:
    """Delete the offsets that a GROUP has in topics to which it is not subscribed."""
    from tidelog.cli.partition_lists import named_partitions
    from tidelog.client.groups import Groups

    if not topics:
        raise click.UsageError("Name topics with --topic.")
    with connect(bootstrap) as cluster:
        answers = Groups(cluster).delete_offsets(group, named_partitions(cluster, topics))
    for place, rejected in answers.items():
        if rejected is not None:
            say(f"The offset in {place} was not deleted: {rejected}")
    deleted = [place for place, rejected in answers.items() if rejected is None]
    if format_ == "json":
        write_json([_place(place) for place in deleted])
    else:
        say(f"Deleted the offsets of group '{group}' in {len(deleted)} of {len(answers)} partitions.")
    return int(any(answers.values()))


def _target(where: str) -> Target:
    from tidelog.client.moments import parse_moment
    from tidelog.client.offset_resets import ToCurrent, ToEarliest, ToLatest, ToOffset, ToTime

    named: dict[str, Target] = {"earliest": ToEarliest(), "latest": ToLatest(), "current": ToCurrent()}
    if where.lower() in named:
        return named[where.lower()]
    if where.isascii() and where.isdigit():
        return ToOffset(int(where))
    try:
        return ToTime(parse_moment(where))
    except ValueError:
        raise click.BadParameter(
            f"'{where}' is neither earliest, latest, current, an offset, nor a time like 2026-01-31T12:00 or @-1h.",
            param_hint="--to",
        ) from None


def _check_inactive(cluster: Cluster, group: str) -> None:
    """Members would overwrite what we set, and a coordinator refuses it anyway."""
    from tidelog.client.core.groups import DEAD_STATE, EMPTY_STATE
    from tidelog.client.errors import Rejected
    from tidelog.client.groups import Groups

    described = Groups(cluster).describe_groups([group])[group]
    if not isinstance(described, Rejected) and described.state not in (EMPTY_STATE, DEAD_STATE):
        members = len(described.members)
        raise BadInput(f"Group '{group}' is {described.state} with {members} members: stop them first.")


def _say_corrections(plan: Plan) -> None:
    for corrected in plan.corrected:
        edge = "begins" if corrected.too_low else "ends"
        say(f"{corrected.partition} {edge} at {corrected.given}: offset {corrected.wanted} is not in it.")
    for place in plan.nothing_so_young:
        say(f"{place} has no record that young: its end is taken.")


def _execute(cluster: Cluster, group: str, plan: Plan) -> int:
    from tidelog.client.groups import Groups

    failures = 0
    for place, rejected in Groups(cluster).alter_offsets(group, plan.commits()).items():
        if rejected is not None:
            failures += 1
            say(f"The offset in {place} was not changed: {rejected}")
    return failures


def _show(
    group: GroupDescription, lags: dict[TopicPartition, Lag], owners: dict[TopicPartition, GroupMember], members: bool
) -> None:
    known = [lag.records for lag in lags.values() if lag.records is not None]
    click.echo(
        f"Group '{group.id}': {group.type.lower()}, {group.state}, {len(group.members)} members, "
        f"assignor {group.assignor or NONE}, coordinator {group.coordinator} (broker {group.coordinator.id}), "
        f"lag {sum(known)}."
    )
    if members:
        write_table(
            ["member", "instance", "client", "host", "partitions"],
            [
                (
                    member.id,
                    member.instance_id or NONE,
                    member.client_id,
                    member.host.removeprefix("/"),
                    " ".join(map(str, member.assignment)) or NONE,
                )
                for member in group.members
            ],
        )
    if lags:
        write_table(
            ["topic", "partition", "offset", "end", "lag", "member"],
            [
                (
                    *place,
                    NONE if lag.committed is None else lag.committed.offset,
                    NONE if lag.log_end is None else lag.log_end,
                    NONE if lag.records is None else lag.records,
                    owners[place].id if place in owners else NONE,
                )
                for place, lag in lags.items()
            ],
        )


def _as_json(
    group: GroupDescription, lags: dict[TopicPartition, Lag], owners: dict[TopicPartition, GroupMember]
) -> Json:
    return {
        "group": group.id,
        "type": group.type.lower(),
        "state": group.state,
        "assignor": group.assignor or None,
        "epoch": group.epoch,
        "coordinator": {"id": group.coordinator.id, "address": str(group.coordinator)},
        "members": [
            {
                "id": member.id,
                "instance_id": member.instance_id,
                "client_id": member.client_id,
                "host": member.host.removeprefix("/"),
                "partitions": [_place(place) for place in member.assignment],
            }
            for member in group.members
        ],
        "offsets": [
            _place(
                place,
                offset=None if lag.committed is None else lag.committed.offset,
                metadata=None if lag.committed is None else lag.committed.metadata,
                log_start=lag.log_start,
                log_end=lag.log_end,
                lag=lag.records,
                member=owners[place].id if place in owners else None,
            )
            for place, lag in lags.items()
        ],
    }


def _place(place: TopicPartition, **more: Json) -> Json:
    return {"topic": place.topic, "partition": place.partition, **more}
