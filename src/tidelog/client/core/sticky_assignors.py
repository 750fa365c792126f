"""Sticky sharing of partitions: as even as the subscriptions allow, and among even shares one that moves little.

`StickyAssignor` is for groups that give everything up before each rebalance and remember in their user data what they
had; `CooperativeStickyAssignor` for those that keep reading (KIP-429). Both go together with Java's of the same names.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from struct import Struct
from struct import error as StructError
from typing import Final

from tidelog.client.core.assignors import Shares
from tidelog.client.core.group_protocol import NO_GENERATION, MemberSubscription, all_partitions
from tidelog.client.core.offsets import by_topic
from tidelog.model.ids import PartitionIndex, TopicName, TopicPartition

_INT32: Final = Struct(">i")
_INT16: Final = Struct(">h")

Owners = dict[TopicPartition, str]


def share_evenly(
    partitions: Mapping[TopicName, int], members: Mapping[str, MemberSubscription], owners: Owners
) -> Shares:
    """Keep what may be kept, give what is left to whoever has least, then move as few as it takes to be even."""
    wanting: dict[TopicName, list[str]] = {
        topic: sorted(member for member, wanted in members.items() if topic in wanted.topics) for topic in partitions
    }
    every = [place for place in all_partitions(partitions) if wanting[place.topic]]
    shares: Shares = {member: [] for member in sorted(members)}
    left: list[TopicPartition] = []
    for place in every:
        owner = owners.get(place)
        if owner is not None and owner in wanting[place.topic]:
            shares[owner].append(place)
        else:
            left.append(place)
    # The partitions with the smallest choice first: the others can go anywhere.
    for place in sorted(left, key=lambda place: (len(wanting[place.topic]), place)):
        least = min(wanting[place.topic], key=lambda member: (len(shares[member]), member))
        shares[least].append(place)
    _even_out(shares, wanting, owners)
    return shares


def _even_out(shares: Shares, wanting: Mapping[TopicName, Sequence[str]], owners: Owners) -> None:
    """Move partitions along the shortest way from a member with many to one with two fewer, while there is one.

    When there is none left no other sharing is more even.
    """
    while True:
        for member in sorted(shares, key=lambda member: (-len(shares[member]), member)):
            way = _way_down(member, shares, wanting, owners)
            if way:
                for giver, place, taker in way:
                    shares[giver].remove(place)
                    shares[taker].append(place)
                break
        else:
            return


def _way_down(
    start: str, shares: Shares, wanting: Mapping[TopicName, Sequence[str]], owners: Owners
) -> list[tuple[str, TopicPartition, str]]:
    """The moves that bring one partition from a member to another that has at least two fewer."""
    goal = len(shares[start]) - 2
    if goal < 0:
        return []
    came: dict[str, tuple[str, TopicPartition]] = {}
    queue = deque([start])
    seen = {start}
    while queue:
        giver = queue.popleft()
        reached: dict[str, TopicPartition] = {}
        # What a member had before is given away last.
        for place in sorted(shares[giver], key=lambda place: (owners.get(place) == giver, place)):
            for taker in wanting[place.topic]:
                if taker not in seen:
                    reached.setdefault(taker, place)
        for taker in sorted(reached, key=lambda member: (len(shares[member]), member)):
            seen.add(taker)
            came[taker] = (giver, reached[taker])
            if len(shares[taker]) <= goal:
                return _traced(came, start, taker)
            queue.append(taker)
    return []


def _traced(
    came: Mapping[str, tuple[str, TopicPartition]], start: str, end: str
) -> list[tuple[str, TopicPartition, str]]:
    moves = []
    while end != start:
        giver, place = came[end]
        moves.append((giver, place, end))
        end = giver
    return moves


def newest_owners(members: Mapping[str, tuple[Sequence[TopicPartition], int]]) -> Owners:
    """Who had each partition: the member of the latest generation. Two of the same generation: nobody."""
    found: dict[TopicPartition, tuple[int, str | None]] = {}
    for member in sorted(members):
        owned, generation = members[member]
        for place in owned:
            known, _ = found.get(place, (NO_GENERATION - 1, None))
            if generation > known:
                found[place] = (generation, member)
            elif generation == known:
                found[place] = (generation, None)
    return {place: member for place, (_, member) in found.items() if member is not None}


class StickyAssignor:
    """Even shares that change little, for members that give everything up before a rebalance."""

    name = "sticky"
    cooperative = False

    def user_data(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        named = by_topic(dict.fromkeys(owned))
        data = bytearray(_INT32.pack(len(named)))
        for topic, rows in named.items():
            raw = topic.encode()
            data += _INT16.pack(len(raw)) + raw + _INT32.pack(len(rows))
            for index, _ in rows:
                data += _INT32.pack(index)
        return bytes(data + _INT32.pack(generation))

    def assign(self, partitions: Mapping[TopicName, int], members: Mapping[str, MemberSubscription]) -> Shares:
        remembered = {member: _remembered(wanted.user_data) for member, wanted in members.items()}
        return share_evenly(partitions, members, newest_owners(remembered))


class CooperativeStickyAssignor:
    """Even shares that change little, for members that read on: what moves is first taken away, then given."""

    name = "cooperative-sticky"
    cooperative = True

    def user_data(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        return _INT32.pack(generation)

    def assign(self, partitions: Mapping[TopicName, int], members: Mapping[str, MemberSubscription]) -> Shares:
        owned = {member: (wanted.owned, _generation(wanted)) for member, wanted in members.items()}
        shares = share_evenly(partitions, members, newest_owners(owned))
        holders = {place: member for member, wanted in members.items() for place in wanted.owned}
        return {
            member: [place for place in share if holders.get(place, member) == member]
            for member, share in shares.items()
        }


def _generation(member: MemberSubscription) -> int:
    if member.generation != NO_GENERATION or member.user_data is None or len(member.user_data) < _INT32.size:
        return member.generation
    return int(_INT32.unpack_from(member.user_data)[0])


def _remembered(data: bytes | None) -> tuple[list[TopicPartition], int]:
    """What a member says it had; nothing when it says so in a way that we do not understand."""
    if not data:
        return [], NO_GENERATION
    found: list[TopicPartition] = []
    try:
        (topics,) = _INT32.unpack_from(data)
        at = _INT32.size
        for _ in range(topics):
            (length,) = _INT16.unpack_from(data, at)
            topic = TopicName(data[at + 2 : at + 2 + length].decode())
            at += 2 + length
            (count,) = _INT32.unpack_from(data, at)
            at += _INT32.size
            for _ in range(count):
                found.append(TopicPartition(topic, PartitionIndex(_INT32.unpack_from(data, at)[0])))
                at += _INT32.size
        generation = _INT32.unpack_from(data, at)[0] if at + _INT32.size <= len(data) else NO_GENERATION
    except (StructError, UnicodeDecodeError):
        return [], NO_GENERATION
    return found, int(generation)
