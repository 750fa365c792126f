"""How a member of a group shares partitions by ranges, and what it says on the wire."""

from __future__ import annotations

import pytest

from tidelog.client.core import membership
from tidelog.client.core.membership import Membership, share_by_ranges
from tidelog.model.ids import TopicName
from tidelog.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember

TOPIC = TopicName("orders")


def shares(members: int, partitions: int) -> list[list[int]]:
    wanted = {f"member-{number:02}": ["orders"] for number in range(members)}
    made = share_by_ranges(wanted, {TOPIC: partitions})
    return [[place.partition for place in made[member]] for member in sorted(made)]


@pytest.mark.req("L5", "L9")
def test_the_first_members_get_one_more_where_it_does_not_come_out_even() -> None:
    assert shares(2, 4) == [[0, 1], [2, 3]]
    assert shares(3, 7) == [[0, 1, 2], [3, 4], [5, 6]]
    assert shares(3, 2) == [[0], [1], []]
    assert shares(1, 0) == [[]]


@pytest.mark.req("L5")
def test_each_topic_is_shared_among_those_who_want_it_alone() -> None:
    wanted = {"a": ["orders", "payments"], "b": ["payments"], "c": ["nothing"]}
    made = share_by_ranges(wanted, {TOPIC: 2, TopicName("payments"): 3, TopicName("unwanted"): 9})

    assert [str(place) for place in made["a"]] == ["orders-0", "orders-1", "payments-0", "payments-1"]
    assert [str(place) for place in made["b"]] == ["payments-2"]
    assert made["c"] == []


def test_what_a_member_says_is_what_others_hear() -> None:
    me = Membership("group", "me", 3)
    request = membership.join(me, ["orders", "payments"], 6_000, 60_000)
    heard = JoinGroupResponse(members=[JoinGroupResponseMember("me", metadata=request.protocols[0].metadata)])
    assert membership.subscriptions(heard) == {"me": ["orders", "payments"]}

    made = share_by_ranges({"me": ["orders"]}, {TOPIC: 3})
    (sent,) = membership.sync(me, made).assignments
    assert sent.member_id == "me"
    assert membership.assigned(sent.assignment) == made["me"]
    assert membership.assigned(b"") == []


def test_older_brokers_are_told_of_one_leaving_member() -> None:
    me = Membership("group", "me", 3)
    assert (membership.leave(me, 2).member_id, membership.leave(me, 2).members) == ("me", [])
    assert [member.member_id for member in membership.leave(me, 5).members] == ["me"]
