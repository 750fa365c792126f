"""The assignors of the broker: from who reads what, and who has what, to who is to have what. Pure functions.

`range` gives each member of a topic one run of partitions, so that partitions of the same number go together.
`uniform` gives all members the same number of partitions, give or take one, and moves as few as that allows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from tidelog.groups.consumer.assignment import Assignment
from tidelog.groups.consumer.readers import Partition, Readers, Sizes, gathered, partitions_of, still_there
from tidelog.groups.consumer.spreading import spread
from tidelog.model.ids import TopicId

Assignor: TypeAlias = Callable[[Readers, Sizes], dict[str, Assignment]]


def assign_ranges(readers: Readers, sizes: Sizes) -> dict[str, Assignment]:
    """Static members first, by instance id, then the others by member id, so that the order outlives a restart."""
    order = sorted(readers, key=lambda name: (readers[name].instance_id is None, readers[name].instance_id or name))
    assigned: dict[str, dict[TopicId, frozenset[int]]] = {name: {} for name in order}
    for topic_id in {topic_id for reader in readers.values() for topic_id in reader.topics}:
        members = [name for name in order if topic_id in readers[name].topics]
        share, extra = divmod(sizes[topic_id], len(members))
        first = 0
        for position, name in enumerate(members):
            last = first + share + (position < extra)
            if last > first:
                assigned[name][topic_id] = frozenset(range(first, last))
            first = last
    return dict(assigned)


def assign_uniformly(readers: Readers, sizes: Sizes) -> dict[str, Assignment]:
    """Spread evenly over the members, the partitions of all topics taken together."""
    if len({reader.topics for reader in readers.values()}) == 1:
        return _assign_same_topics(readers, sizes)
    return spread(readers, sizes)


def _assign_same_topics(readers: Readers, sizes: Sizes) -> dict[str, Assignment]:
    """All read the same: whoever has more than its share gives up the rest, and those with less get it."""
    topics = next(iter(readers.values())).topics
    share, extra = divmod(sum(sizes[topic_id] for topic_id in topics), len(readers))
    held = {name: list(still_there(reader, sizes)) for name, reader in readers.items()}
    taken: set[Partition] = set()
    # Who has the most keeps one more than the share, as long as there are such places, so that it need not move.
    for name in sorted(held, key=lambda name: (-len(held[name]), name)):
        limit = share + (extra > 0)
        held[name] = [partition for partition in held[name] if partition not in taken][:limit]
        extra -= len(held[name]) > share
        taken.update(held[name])
    free = [each for topic_id in sorted(topics) for each in partitions_of(topic_id, sizes) if each not in taken]
    free.reverse()
    for name in sorted(held, key=lambda name: (-len(held[name]), name)):
        mine = held[name]
        while len(mine) < share:
            mine.append(free.pop())
        if len(mine) == share and extra > 0:
            mine.append(free.pop())
            extra -= 1
    assert not free, "every partition is given to a member"
    return {name: gathered(mine) for name, mine in held.items()}


ASSIGNORS: Final[dict[str, Assignor]] = {"uniform": assign_uniformly, "range": assign_ranges}
