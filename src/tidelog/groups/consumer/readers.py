"""What an assignor is given: who reads which topics, what each had, and how many partitions there are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from tidelog.groups.consumer.assignment import NOTHING, Assignment
from tidelog.model.ids import TopicId


@dataclass(frozen=True, slots=True)
class Reader:
    """A member to assign to."""

    topics: frozenset[TopicId]
    # What it was to have until now.
    had: Assignment = field(default_factory=lambda: NOTHING)
    instance_id: str | None = None


class Partition(NamedTuple):
    """One partition to assign."""

    topic_id: TopicId
    number: int


# Members by id, and how many partitions each topic has; only topics that exist are read.
Readers: TypeAlias = Mapping[str, Reader]
Sizes: TypeAlias = Mapping[TopicId, int]


def still_there(reader: Reader, sizes: Sizes) -> Iterator[Partition]:
    """What a member had and can still have, in order."""
    for topic_id in sorted(reader.had):
        if topic_id in reader.topics:
            for index in sorted(reader.had[topic_id]):
                if index < sizes[topic_id]:
                    yield Partition(topic_id, index)


def partitions_of(topic_id: TopicId, sizes: Sizes) -> Iterator[Partition]:
    return (Partition(topic_id, index) for index in range(sizes[topic_id]))


def gathered(partitions: Iterable[Partition]) -> Assignment:
    """Partitions one by one, as an assignment."""
    by_topic: defaultdict[TopicId, set[int]] = defaultdict(set)
    for topic_id, index in partitions:
        by_topic[topic_id].add(index)
    return {topic_id: frozenset(indexes) for topic_id, indexes in by_topic.items()}
