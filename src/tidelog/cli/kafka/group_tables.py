"""What `kafka-consumer-groups --describe` prints: offsets with lag, members, states, in the columns of Kafka's tool.

One difference is wanted: the lag counts records that are there. It is never negative, and what was deleted before it
was read is not waiting any more.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tidelog.client.core.groups import GroupDescription, GroupMember
    from tidelog.client.groups import Lag
    from tidelog.model.ids import TopicPartition

MISSING: Final = "-"
WIDTH_MIN: Final = 15
HOST_WIDTH_MIN: Final = 15
INSTANCE_WIDTH_MIN: Final = 17
ASSIGNMENT_WIDTH_MIN: Final = 20
COORDINATOR_WIDTH_MIN: Final = 25
REBALANCING: Final = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")


def print_error(message: str) -> None:
    print(f"\nError: {message}")


def print_offsets(group: GroupDescription, lags: Mapping[TopicPartition, Lag], *, verbose: bool) -> None:
    """Each partition with its offset, its end, and who reads it."""
    rows = list(_offset_rows(group, lags))
    if not _worth_printing(group, len(rows)):
        return
    header = ["GROUP", "TOPIC", "PARTITION", "LEADER-EPOCH", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"]
    header += ["CONSUMER-ID", "HOST", "CLIENT-ID"]
    if not verbose:
        header.remove("LEADER-EPOCH")
        rows = [[*row[:3], *row[4:]] for row in rows]
    numbers = [10] + [15] * (4 if verbose else 3)
    ids, hosts = _width(rows, -3), _width(rows, -2, HOST_WIDTH_MIN)
    widths = [_width(rows, 0), _width(rows, 1), *numbers, ids, hosts]
    for row in [header, *rows]:
        print("\n" + _padded(row[:-1], widths) + f" {row[-1]}", end="")
    print()


def _offset_rows(group: GroupDescription, lags: Mapping[TopicPartition, Lag]) -> Iterable[list[str]]:
    """First what members have, those with most first, then what nobody reads."""
    assigned: set[TopicPartition] = set()
    for member in sorted(group.members, key=lambda member: -len(member.assignment)):
        for place in member.assignment:
            assigned.add(place)
            yield _offset_row(group.id, place, lags[place], member.id, member.host, member.client_id)
    for place in sorted(lags.keys() - assigned):
        yield _offset_row(group.id, place, lags[place], MISSING, MISSING, MISSING)


def _offset_row(group: str, place: TopicPartition, lag: Lag, *owner: str) -> list[str]:
    committed = lag.committed
    epoch = None if committed is None or committed.leader_epoch < 0 else committed.leader_epoch
    offset = None if committed is None else committed.offset
    return [
        group,
        place.topic,
        str(place.partition),
        *(MISSING if value is None else str(value) for value in (epoch, offset, lag.log_end, lag.records)),
        *owner,
    ]


def print_members(group: GroupDescription, *, verbose: bool) -> None:
    """Each member and, if verbose, what it has and is to have."""
    if not _worth_printing(group, len(group.members)):
        members: Sequence[GroupMember] = ()
    else:
        members = group.members
    with_instance = any(member.instance_id for member in members)
    kinds = {member.upgraded for member in members}
    migrating = {True, False} <= kinds
    header = ["GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]
    rows = [
        [
            group.id,
            member.id,
            member.instance_id or "",
            member.host,
            member.client_id,
            str(len(member.assignment)),
            *_assignment_cells(group, member),
        ]
        for member in members
    ]
    table = [[*header, "CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT", "UPGRADED"], *rows]
    widths = [_width(rows, 0), _width(rows, 1), _width(rows, 2, INSTANCE_WIDTH_MIN), _width(rows, 3, HOST_WIDTH_MIN)]
    widths += [
        _width(rows, 4),
        15,
        15,
        _width(rows, 7, ASSIGNMENT_WIDTH_MIN),
        15,
        _width(rows, 9, ASSIGNMENT_WIDTH_MIN),
    ]
    print()
    for row in table:
        first = [0, 1, *([2] if with_instance else []), 3, 4, 5]
        line = "".join(f"{row[column]:<{widths[column]}} " for column in first)
        if verbose:
            line += _padded(row[6:10], widths[6:10])
            line += f" {row[10]}" if migrating else ""
        print(line)


def _assignment_cells(group: GroupDescription, member: GroupMember) -> list[str]:
    return [
        MISSING if member.epoch is None else str(member.epoch),
        _assignment(member.assignment),
        MISSING if group.target_epoch is None else str(group.target_epoch),
        _assignment(member.target or ()),
        MISSING if member.upgraded is None else str(member.upgraded).lower(),
    ]


def _assignment(places: Iterable[TopicPartition]) -> str:
    topics: dict[str, list[int]] = {}
    for place in places:
        topics.setdefault(place.topic, []).append(place.partition)
    return ";".join(f"{topic}:{','.join(map(str, sorted(topics[topic])))}" for topic in sorted(topics)) or MISSING


def print_state(group: GroupDescription, *, verbose: bool) -> None:
    """Coordinator, assignor, state and number of members."""
    if not _worth_printing(group, 1):
        return
    node = group.coordinator
    coordinator = f"{node.host}:{node.port}  ({node.id})"
    widths = [max(WIDTH_MIN, len(group.id)), max(COORDINATOR_WIDTH_MIN, len(coordinator)), 20, 20]
    header = ["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE"]
    row = [group.id, coordinator, group.assignor or MISSING, group.state]
    if verbose:
        header += ["GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"]
        row += [MISSING if epoch is None else str(epoch) for epoch in (group.epoch, group.target_epoch)]
        widths += [15, 25]
    print("\n" + _padded(header, widths) + " #MEMBERS")
    print(_padded(row, widths) + f" {len(group.members)}")


def _worth_printing(group: GroupDescription, rows: int) -> bool:
    """Whether there is something to show; says what is unusual about the group."""
    if group.state == "Dead":
        print_error(f"Consumer group '{group.id}' does not exist.")
        return False
    if group.state == "Empty":
        print(f"\nConsumer group '{group.id}' has no active members.", file=sys.stderr)
    elif group.state in REBALANCING:
        print(f"\nWarning: Consumer group '{group.id}' is rebalancing.", file=sys.stderr)
    return rows > 0


def _width(rows: Sequence[Sequence[str]], column: int, width_min: int = WIDTH_MIN) -> int:
    return max([width_min, *(len(row[column]) for row in rows)])


def _padded(cells: Sequence[str], widths: Sequence[int]) -> str:
    return " ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True))
