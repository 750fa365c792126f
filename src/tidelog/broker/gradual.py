"""Large changes of the metadata, handed on in pieces, a few new partitions in each turn of the loop.

To make the files of a thousand partitions takes longer than the quorum waits for a node. Built by `assembly.py` between
the published image and those who hold partitions; nothing overtakes what waits here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from tidelog.metadata.delta import Delta
from tidelog.metadata.image import NOTHING, TopicImage
from tidelog.model.ids import PartitionIndex, TopicId

PARTITIONS_AT_ONCE: Final = 20


class Gradually:
    """Subscribes in the place of others. Small changes are handed on at once, as long as nothing waits."""

    def __init__(self, call_soon: Callable[[Callable[[], None]], object], partitions_at_once: int) -> None:
        self._call_soon = call_soon
        self._partitions_at_once = partitions_at_once
        self._acts: list[Callable[[Delta], None]] = []
        self._waiting: deque[Delta] = deque()
        self._begun = False

    def add(self, act: Callable[[Delta], None], so_far: Delta) -> None:
        """Call `act` with each change from now on; what is known `so_far` is the first, and comes whole."""
        self._acts.append(act)
        act(so_far)

    def apply(self, delta: Delta) -> None:
        if not self._begun:
            # What a publisher tells a new subscriber, everybody here has had.
            self._begun = True
            return
        is_idle = not self._waiting
        self._waiting.extend(pieces(delta, self._partitions_at_once))
        if is_idle:
            self._next()

    def _next(self) -> None:
        piece = self._waiting[0]
        for act in self._acts:
            act(piece)
        self._waiting.popleft()
        if self._waiting:
            self._call_soon(self._next)


def pieces(delta: Delta, partitions_max: int) -> Iterator[Delta]:
    """The same change as several, each with at most so many partitions of new topics; all else is in the first."""
    if sum(len(topic.partitions) for topic in delta.topics_created.values()) <= partitions_max:
        yield delta
        return
    parts = list(_parts(delta, partitions_max))
    yield msgspec.structs.replace(delta, topics_created=parts[0])
    for part in parts[1:]:
        yield Delta(
            before=delta.before,
            after=delta.after,
            topics_created=part,
            topics_removed=NOTHING,
            partitions_changed=NOTHING,
            configs_changed=frozenset(),
            brokers_changed=frozenset(),
            controllers_changed=frozenset(),
            features_changed=frozenset(),
            quotas_changed=frozenset(),
        )


def _parts(delta: Delta, partitions_max: int) -> Iterator[dict[TopicId, TopicImage]]:
    part: dict[TopicId, TopicImage] = {}
    room = partitions_max
    for topic_id, topic in delta.topics_created.items():
        indexes = list(topic.partitions)
        while indexes:
            taken, indexes = indexes[:room], indexes[room:]
            part[topic_id] = _only(topic, taken)
            room -= len(taken)
            if not room:
                yield part
                part, room = {}, partitions_max
    if part:
        yield part


def _only(topic: TopicImage, indexes: list[PartitionIndex]) -> TopicImage:
    return msgspec.structs.replace(topic, partitions={index: topic.partitions[index] for index in indexes})
