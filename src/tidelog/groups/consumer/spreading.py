"""The uniform assignor for members that read different topics: as even as their subscriptions allow, moving little."""

from __future__ import annotations

from heapq import heapify, heappop, heappush, heapreplace
from typing import Final

from tidelog.groups.consumer.assignment import Assignment
from tidelog.groups.consumer.readers import Partition, Readers, Sizes, gathered, partitions_of, still_there
from tidelog.model.ids import TopicId

# Passes over all topics that even out the loads. One does nearly all of it; odd overlaps of subscriptions take a few.
PASSES_MAX: Final = 16


def spread(readers: Readers, sizes: Sizes) -> dict[str, Assignment]:
    """Keep what can be kept, give what is free to whoever has least, then even out."""
    spreading = _Spreading(readers, sizes)
    spreading.keep()
    spreading.fill()
    for _ in range(PASSES_MAX):
        if not spreading.even_out():
            break
    return {name: gathered(held) for name, held in spreading.held.items()}


class _Spreading:
    def __init__(self, readers: Readers, sizes: Sizes) -> None:
        self.readers = readers
        self.sizes = sizes
        self.held: dict[str, set[Partition]] = {name: set() for name in readers}
        self.taken: set[Partition] = set()
        self.members: dict[TopicId, list[str]] = {}
        for name in sorted(readers):
            for topic_id in readers[name].topics:
                self.members.setdefault(topic_id, []).append(name)
        # Topics that few members read come first: the others have more to choose from.
        self.topics = sorted(self.members, key=lambda topic_id: (len(self.members[topic_id]), topic_id))

    def keep(self) -> None:
        for name, reader in self.readers.items():
            for partition in still_there(reader, self.sizes):
                if partition not in self.taken:
                    self._give(name, partition)

    def fill(self) -> None:
        for topic_id in self.topics:
            free = [each for each in partitions_of(topic_id, self.sizes) if each not in self.taken]
            if free:
                loads = [(len(self.held[name]), name) for name in self.members[topic_id]]
                heapify(loads)
                for partition in free:
                    load, name = loads[0]
                    self._give(name, partition)
                    heapreplace(loads, (load + 1, name))

    def even_out(self) -> bool:
        """Move partitions of each topic from who has most to who has least; whether any moved."""
        moved = False
        for topic_id in self.topics:
            members = self.members[topic_id]
            least = [(len(self.held[name]), name) for name in members]
            most = [(-len(self.held[name]), name) for name in members if self._of(name, topic_id)]
            heapify(least)
            heapify(most)
            while least and most:
                fewer, poor = least[0]
                more, rich = most[0]
                if fewer != len(self.held[poor]):
                    heapreplace(least, (len(self.held[poor]), poor))
                elif -more != len(self.held[rich]):
                    heapreplace(most, (-len(self.held[rich]), rich))
                elif -more - fewer <= 1:
                    break
                else:
                    here = self._of(rich, topic_id)
                    partition = max(here)
                    self.held[rich].remove(partition)
                    self.held[poor].add(partition)
                    moved = True
                    if len(here) == 1:
                        heappop(most)
                    heappush(most, (-len(self.held[poor]), poor))
        return moved

    def _of(self, name: str, topic_id: TopicId) -> list[Partition]:
        return [partition for partition in self.held[name] if partition.topic_id == topic_id]

    def _give(self, name: str, partition: Partition) -> None:
        self.held[name].add(partition)
        self.taken.add(partition)
