"""Sets of partitions by topic, and the little arithmetic that assigning them needs. Nothing here changes a set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeAlias

from tidelog.model.ids import TopicId

# No topic maps to an empty set, so that equal assignments are equal mappings.
Assignment: TypeAlias = Mapping[TopicId, frozenset[int]]

NOTHING: Final[Assignment] = MappingProxyType({})

# In which epoch of its member each partition became its own.
OwnedSince: TypeAlias = Mapping[TopicId, Mapping[int, int]]


class TopicPartitionList(Protocol):
    """How requests and records list the partitions of one topic."""

    topic_id: TopicId
    partitions: list[int]


def assignment_of(listed: Iterable[TopicPartitionList]) -> Assignment:
    """From the lists of a request or record."""
    collected: dict[TopicId, frozenset[int]] = {}
    for each in listed:
        if each.partitions:
            collected[each.topic_id] = collected.get(each.topic_id, frozenset()).union(each.partitions)
    return collected


def as_lists(assignment: Assignment, make: Any) -> list[Any]:
    """To the lists of a response or record, whose class is `make`, in a fixed order."""
    return [
        make(topic_id=topic_id, partitions=sorted(partitions))
        for topic_id, partitions in sorted(assignment.items(), key=lambda item: item[0].int)
    ]


def owned_since(before: OwnedSince, epoch: int, owned: Iterable[Assignment]) -> OwnedSince:
    """What a member owns from this epoch on, and what it has owned before and still does."""
    since: dict[TopicId, dict[int, int]] = {}
    for assignment in owned:
        for topic, partitions in assignment.items():
            known = before.get(topic, {})
            since.setdefault(topic, {}).update({partition: known.get(partition, epoch) for partition in partitions})
    return since


def minus(left: Assignment, right: Assignment) -> Assignment:
    return _kept({topic: partitions - right.get(topic, frozenset()) for topic, partitions in left.items()})


def both(left: Assignment, right: Assignment) -> Assignment:
    return _kept({topic: partitions & right[topic] for topic, partitions in left.items() if topic in right})


def plus(left: Assignment, right: Assignment) -> Assignment:
    joined = dict(left)
    for topic, partitions in right.items():
        joined[topic] = joined.get(topic, frozenset()) | partitions
    return joined


def overlap(left: Assignment, right: Assignment) -> bool:
    return any(not partitions.isdisjoint(right.get(topic, ())) for topic, partitions in left.items())


def within(left: Assignment, right: Assignment) -> bool:
    """Whether all of `left` is also in `right`."""
    return all(partitions <= right.get(topic, frozenset()) for topic, partitions in left.items())


def _kept(assignment: Assignment) -> Assignment:
    return {topic: partitions for topic, partitions in assignment.items() if partitions}
