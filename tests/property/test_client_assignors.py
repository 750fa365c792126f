"""The assignors: valid and even for any group, and what they have in common with Java's (compared in tests/clients)."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.client.core.assignors import Assignor, RangeAssignor, RoundRobinAssignor, assignors_of
from tidelog.client.core.group_protocol import (
    MemberSubscription,
    all_partitions,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from tidelog.client.core.sticky_assignors import CooperativeStickyAssignor, StickyAssignor
from tidelog.client.errors import InvalidOption
from tidelog.model.ids import TopicName, TopicPartition

NAMES = [TopicName(name) for name in "abcd"]
topics = st.dictionaries(st.sampled_from(NAMES), st.integers(1, 7), min_size=1)
groups = st.dictionaries(
    st.sampled_from([f"member-{number}" for number in range(6)]),
    st.sets(st.sampled_from(NAMES), min_size=1).map(lambda names: MemberSubscription(tuple(sorted(names)))),
    min_size=1,
)
Shares = Mapping[str, list[TopicPartition]]


def check_valid(shares: Shares, partitions: Mapping[TopicName, int], members: Mapping[str, MemberSubscription]) -> None:
    wanted = {topic for member in members.values() for topic in member.topics}
    given_out = [place for share in shares.values() for place in share]
    assert sorted(given_out) == [place for place in all_partitions(partitions) if place.topic in wanted]
    for member, share in shares.items():
        assert all(place.topic in members[member].topics for place in share)


def with_memory(assignor: Assignor, shares: Shares, members: Mapping[str, MemberSubscription], generation: int):  # type: ignore[no-untyped-def]
    """The same members when they join again with what they were given."""
    return {
        member: MemberSubscription(
            wanted.topics,
            tuple(shares.get(member, ())) if assignor.cooperative else (),
            generation,
            user_data=assignor.user_data(list(shares.get(member, ())), generation),
        )
        for member, wanted in members.items()
    }


@given(topics, groups)
@settings(max_examples=50)
@pytest.mark.parametrize("kind", [RangeAssignor, RoundRobinAssignor, StickyAssignor, CooperativeStickyAssignor])
def test_every_partition_is_given_to_one_member_that_wants_it(
    kind: type[Assignor], partitions: dict[TopicName, int], members: dict[str, MemberSubscription]
) -> None:
    check_valid(kind().assign(partitions, members), partitions, members)


@given(topics, groups)
@settings(max_examples=50)
@pytest.mark.parametrize("kind", [StickyAssignor, CooperativeStickyAssignor])
def test_sticky_shares_cannot_be_made_more_even_by_one_move_and_stay_when_nothing_changes(
    kind: type[Assignor], partitions: dict[TopicName, int], members: dict[str, MemberSubscription]
) -> None:
    assignor = kind()
    shares = assignor.assign(partitions, members)
    for giver, share in shares.items():
        for place in share:
            for taker, wanted in members.items():
                if place.topic in wanted.topics:
                    assert len(shares[giver]) - len(shares[taker]) <= 1
    again = assignor.assign(partitions, with_memory(assignor, shares, members, 1))
    assert {member: sorted(share) for member, share in again.items()} == {
        member: sorted(share) for member, share in shares.items()
    }


@given(topics, groups, st.data())
@settings(max_examples=50)
def test_a_cooperative_group_gives_nothing_away_before_it_was_given_back_and_ends_even(
    partitions: dict[TopicName, int], members: dict[str, MemberSubscription], data: st.DataObject
) -> None:
    assignor = CooperativeStickyAssignor()
    before = assignor.assign(partitions, members)
    joined = dict(members) | data.draw(groups)
    owned = {member: list(before.get(member, ())) for member in joined}
    for generation in (1, 2, 3):
        holders = {place: member for member, share in owned.items() for place in share}
        shares = assignor.assign(partitions, with_memory(assignor, owned, joined, generation))
        for member, share in shares.items():
            assert all(holders.get(place, member) == member for place in share)
        owned = {member: list(share) for member, share in shares.items()}
    check_valid(owned, partitions, joined)


@given(groups)
def test_subscriptions_and_assignments_survive_the_wire(members: dict[str, MemberSubscription]) -> None:
    for member in members.values():
        assert decode_subscription(encode_subscription(member)) == member
        places = all_partitions(dict.fromkeys(member.topics, 3))
        assert sorted(decode_assignment(encode_assignment(places))) == sorted(places)


def test_assignors_are_found_by_name_and_one_of_ones_own_is_taken_as_it_is() -> None:
    own = RangeAssignor()
    assert [each.name for each in assignors_of(["range", "roundrobin", "sticky", "cooperative-sticky"])] == [
        "range",
        "roundrobin",
        "sticky",
        "cooperative-sticky",
    ]
    assert assignors_of([own, RoundRobinAssignor])[0] is own
    with pytest.raises(InvalidOption, match="There is no assignor"):
        assignors_of(["fair"])
