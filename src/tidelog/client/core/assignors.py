"""How the leader of a classic group shares partitions among the members: range and round robin, and the choice by name.

The sticky ones are in `sticky_assignors.py`. An assignor of one's own has the same three attributes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from typing import Any, Final, Protocol, cast

from tidelog.client.core.group_protocol import MemberSubscription, all_partitions
from tidelog.client.errors import InvalidOption
from tidelog.model.ids import PartitionIndex, TopicName, TopicPartition

Shares = dict[str, list[TopicPartition]]


class Assignor(Protocol):
    """Shares partitions. `cooperative`: members keep what they have while partitions move (KIP-429)."""

    @property
    def name(self) -> str: ...

    @property
    def cooperative(self) -> bool: ...

    def user_data(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        """What a member says to the assignor of the leader beside its subscription."""
        ...

    def assign(self, partitions: Mapping[TopicName, int], members: Mapping[str, MemberSubscription]) -> Shares:
        """A share for each member, of topics with this many partitions."""
        ...


def in_order(members: Mapping[str, MemberSubscription], wanting: Iterable[str]) -> list[str]:
    """Members with an instance id first, by that; the others by member id, as Java's clients order them."""

    def key(member: str) -> tuple[bool, str]:
        instance = members[member].instance_id
        return (instance is None, member if instance is None else instance)

    return sorted(wanting, key=key)


class RangeAssignor:
    """Each topic is cut into ranges, one for each member that wants it; the first members get the longer ones."""

    name = "range"
    cooperative = False

    def user_data(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        return None

    def assign(self, partitions: Mapping[TopicName, int], members: Mapping[str, MemberSubscription]) -> Shares:
        shares: Shares = {member: [] for member in members}
        for topic in sorted(partitions):
            wanting = in_order(members, (member for member, wanted in members.items() if topic in wanted.topics))
            if not wanting:
                continue
            size, longer = divmod(partitions[topic], len(wanting))
            first = 0
            for number, member in enumerate(wanting):
                end = first + size + (number < longer)
                shares[member] += [TopicPartition(topic, PartitionIndex(index)) for index in range(first, end)]
                first = end
        return shares


class RoundRobinAssignor:
    """All partitions of all topics are dealt out one by one to the members that want them."""

    name = "roundrobin"
    cooperative = False

    def user_data(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        return None

    def assign(self, partitions: Mapping[TopicName, int], members: Mapping[str, MemberSubscription]) -> Shares:
        shares: Shares = {member: [] for member in members}
        wanted = {topic for member in members.values() for topic in member.topics}
        turn = cycle(in_order(members, members))
        for place in all_partitions({topic: count for topic, count in partitions.items() if topic in wanted}):
            member = next(turn)
            while place.topic not in members[member].topics:
                member = next(turn)
            shares[member].append(place)
        return shares


def assignors_of(given: Sequence[Any]) -> list[Assignor]:
    """What the setting `assignors` means: names, classes or objects, the preferred one first."""
    from tidelog.client.core.sticky_assignors import CooperativeStickyAssignor, StickyAssignor

    named: Final = {
        kind.name: kind for kind in (RangeAssignor, RoundRobinAssignor, StickyAssignor, CooperativeStickyAssignor)
    }
    found: list[Assignor] = []
    for each in given:
        if isinstance(each, str):
            name = each.lower().replace("_", "-").replace("round-robin", "roundrobin")
            if name not in named:
                raise InvalidOption(f"There is no assignor {each!r}; there are {', '.join(named)}.")
            found.append(cast(Assignor, named[name]()))
        else:
            found.append(cast(Assignor, each() if isinstance(each, type) else each))
    if not found:
        raise InvalidOption("assignors is empty.")
    return found
