"""Where the offsets of a group would go: a target for each partition, looked up and kept within what the log holds.

Plans only; `Groups.alter_offsets` carries a plan out. Used by the commands that reset offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, assert_never

from tidelog.client.admin import Admin, accepted
from tidelog.client.cluster import Cluster
from tidelog.client.core.described import EARLIEST, LATEST
from tidelog.client.core.groups import CommittedOffset
from tidelog.client.errors import ClientError, Rejected
from tidelog.client.groups import Groups
from tidelog.model.ids import Offset, TopicPartition


class CannotReset(ClientError):
    """A target that means nothing for this group."""


@dataclass(frozen=True, slots=True)
class ToEarliest:
    """The oldest record."""


@dataclass(frozen=True, slots=True)
class ToLatest:
    """After the newest record."""


@dataclass(frozen=True, slots=True)
class ToCurrent:
    """Where the group is; the end where it has no offset."""


@dataclass(frozen=True, slots=True)
class ToOffset:
    """One offset in each partition."""

    offset: int


@dataclass(frozen=True, slots=True)
class ToTime:
    """The first record at or after a time; the end where there is none."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class ShiftBy:
    """So many records on, or back."""

    records: int


@dataclass(frozen=True, slots=True)
class ToGiven:
    """An offset for each partition."""

    offsets: Mapping[TopicPartition, Offset]


Target: TypeAlias = ToEarliest | ToLatest | ToCurrent | ToOffset | ToTime | ShiftBy | ToGiven


@dataclass(frozen=True, slots=True)
class Corrected:
    """A wish outside of what the partition holds."""

    partition: TopicPartition
    wanted: int
    given: Offset

    @property
    def too_low(self) -> bool:
        return self.wanted < self.given


@dataclass(frozen=True, slots=True)
class Plan:
    """New offsets, and what had to be decided otherwise than wished."""

    offsets: dict[TopicPartition, Offset]
    corrected: list[Corrected] = field(default_factory=list)
    # Where no record is as young as the time asked for, so that the end was taken.
    nothing_so_young: list[TopicPartition] = field(default_factory=list)

    def commits(self) -> dict[TopicPartition, CommittedOffset]:
        return {place: CommittedOffset(offset) for place, offset in self.offsets.items()}


def plan_reset(cluster: Cluster, group_id: str, partitions: Iterable[TopicPartition], target: Target) -> Plan:
    """Look up what each partition's new offset would be. Raises for a partition that does not exist."""
    places = sorted(set(partitions))
    match target:
        case ToEarliest():
            return Plan(_offsets_at(cluster, places, EARLIEST))
        case ToLatest():
            return Plan(_offsets_at(cluster, places, LATEST))
        case ToTime(timestamp_ms):
            return _at_time(cluster, places, timestamp_ms)
        case ToOffset(offset):
            return _within(cluster, dict.fromkeys(places, offset))
        case ToGiven(offsets):
            return _within(cluster, {place: offsets[place] for place in places})
        case ToCurrent():
            current = _current(cluster, group_id, places)
            others = [place for place in places if place not in current]
            return Plan(dict(sorted({**current, **_offsets_at(cluster, others, LATEST)}.items())))
        case ShiftBy(records):
            current = _current(cluster, group_id, places)
            for place in places:
                if place not in current:
                    raise CannotReset(
                        f"Cannot shift offset for partition {place} since there is no current committed offset"
                    )
            return _within(cluster, {place: current[place] + records for place in places})
        case unknown:
            assert_never(unknown)


def _current(cluster: Cluster, group_id: str, places: list[TopicPartition]) -> dict[TopicPartition, Offset]:
    found = Groups(cluster).offsets_of(group_id, places)
    return {place: accepted(committed).offset for place, committed in found.items()}


def _at_time(cluster: Cluster, places: list[TopicPartition], timestamp_ms: int) -> Plan:
    found = _offsets_at(cluster, places, timestamp_ms)
    late = [place for place in places if found[place] < 0]
    return Plan({**found, **_offsets_at(cluster, late, LATEST)}, nothing_so_young=late)


def _within(cluster: Cluster, wanted: Mapping[TopicPartition, int]) -> Plan:
    places = list(wanted)
    first, end = _offsets_at(cluster, places, EARLIEST), _offsets_at(cluster, places, LATEST)
    plan = Plan({place: Offset(min(max(offset, first[place]), end[place])) for place, offset in wanted.items()})
    for place, offset in wanted.items():
        if plan.offsets[place] != offset:
            plan.corrected.append(Corrected(place, offset, plan.offsets[place]))
    return plan


def _offsets_at(cluster: Cluster, places: list[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, Offset]:
    if not places:
        return {}
    answers = Admin(cluster).list_offsets(dict.fromkeys(places, timestamp_ms))
    failures = [answer for answer in answers.values() if isinstance(answer, Rejected)]
    if failures:
        raise failures[0]
    return {place: accepted(answers[place]).offset for place in places}
