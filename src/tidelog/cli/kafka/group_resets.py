"""What `kafka-consumer-groups --reset-offsets` does: plan, perhaps execute, and print or export the new offsets."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, Final

from tidelog.cli.failures import BadInput
from tidelog.cli.kafka.group_tables import WIDTH_MIN, print_error
from tidelog.cli.partition_lists import GroupOffsets, named_partitions, read_offsets, show_offsets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.client.cluster import Cluster
    from tidelog.client.offset_resets import Plan, Target
    from tidelog.model.ids import Offset, TopicPartition

WITHOUT_EXECUTE: Final = (
    "WARN: No action will be performed as the --execute option is missing. Add --dry-run to say that this is meant."
)


def reset_offsets(cluster: Cluster, groups: Sequence[str], options: argparse.Namespace) -> None:
    """Reset the offsets of groups that have no members."""
    from tidelog.client.core.groups import DEAD_STATE, EMPTY_STATE
    from tidelog.client.errors import Rejected
    from tidelog.client.groups import Groups

    if not options.dry_run and not options.execute:
        print(WITHOUT_EXECUTE, file=sys.stderr)
    given = read_offsets(options.from_file, groups) if options.from_file else {}
    done: GroupOffsets = {}
    for name, group in Groups(cluster).describe_groups(groups).items():
        if not isinstance(group, Rejected) and group.state not in (EMPTY_STATE, DEAD_STATE):
            print_error(
                f"Assignments can only be reset if the group '{name}' is inactive, but the current state is "
                f"{group.state}."
            )
            done[name] = {}
            continue
        done[name] = _reset(cluster, name, given.get(name, {}), options)
    if options.export:
        print(show_offsets(done, with_group=len(groups) > 1))
    else:
        _print(done)


def _reset(
    cluster: Cluster, group: str, given: dict[TopicPartition, Offset], options: argparse.Namespace
) -> dict[TopicPartition, Offset]:
    from tidelog.client.groups import Groups
    from tidelog.client.offset_resets import CannotReset, plan_reset

    groups = Groups(cluster)
    if options.from_file:
        partitions = list(given)
    elif options.topic:
        partitions = named_partitions(cluster, options.topic)
    else:
        partitions = list(groups.offsets_of(group))
    try:
        plan = plan_reset(cluster, group, partitions, _target(given, options))
    except CannotReset as error:
        raise BadInput(str(error)) from None
    _warn(plan)
    if options.execute:
        for refused in groups.alter_offsets(group, plan.commits()).values():
            if refused is not None:
                raise refused
    return plan.offsets


def _target(given: dict[TopicPartition, Offset], options: argparse.Namespace) -> Target:
    from tidelog.client import offset_resets as resets

    if options.to_earliest:
        return resets.ToEarliest()
    if options.to_latest:
        return resets.ToLatest()
    if options.to_current:
        return resets.ToCurrent()
    if options.to_offset is not None:
        return resets.ToOffset(options.to_offset)
    if options.shift_by is not None:
        return resets.ShiftBy(options.shift_by)
    if options.from_file:
        return resets.ToGiven(given)
    return resets.ToTime(_moment(options))


def _moment(options: argparse.Namespace) -> int:
    """As Kafka takes it, and as people write it."""
    from tidelog.client.moments import parse_duration, parse_moment

    try:
        if options.by_duration is not None:
            return time.time_ns() // 1_000_000 - parse_duration(options.by_duration)
        return parse_moment(options.to_datetime)
    except ValueError as error:
        raise BadInput(str(error)) from None


def _warn(plan: Plan) -> None:
    for corrected in plan.corrected:
        side = "lower than earliest" if corrected.too_low else "higher than latest"
        print(
            f"WARN New offset ({corrected.wanted}) is {side} offset for topic partition {corrected.partition}. "
            f"Value will be set to {corrected.given}",
            file=sys.stderr,
        )
    for place in plan.nothing_so_young:
        print(
            f"\nWarn: Partition {place.partition} from topic {place.topic} is empty. "
            "Falling back to latest known offset."
        )


def _print(offsets: GroupOffsets) -> None:
    rows = [
        (group, place.topic, str(place.partition), str(offset))
        for group, places in offsets.items()
        for place, offset in sorted(places.items())
    ]
    group_width = max([WIDTH_MIN, *(len(row[0]) for row in rows)])
    topic_width = max([WIDTH_MIN, *(len(row[1]) for row in rows)])
    for group, topic, partition, offset in [("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"), *rows]:
        print(f"\n{group:<{group_width}} {topic:<{topic_width}} {partition:<10} {offset}", end="")
    print()
