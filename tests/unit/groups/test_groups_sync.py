from __future__ import annotations

import pytest

from harness.group_desk import GROUP, GroupDesk
from tidelog.groups.classic.states import State
from tidelog.model.errors import ErrorCode, ProtocolError


def two_joined(desk: GroupDesk) -> tuple[str, str, int]:
    """A leader and a follower that have joined and wait for nothing; their generation."""
    leader, first = desk.new_member()
    follower, second = desk.new_member()
    desk.join(leader)
    assert desk.answers[first].generation_id == 1
    return leader, follower, desk.answers[second].generation_id


def state(desk: GroupDesk) -> State:
    return desk.shard.groups[GROUP].state  # type: ignore[union-attr]


@pytest.mark.req("A21", "L4")
def test_a_follower_that_asks_before_the_leader_gets_its_part_when_the_leader_brings_it() -> None:
    desk = GroupDesk()
    leader, follower, generation = two_joined(desk)

    early = desk.sync(follower, generation)
    assert desk.waits(early)
    late = desk.sync(leader, generation, {leader: b"half", follower: b"rest"})

    assert (bytes(desk.answers[early].assignment), bytes(desk.answers[late].assignment)) == (b"rest", b"half")
    assert (desk.answers[early].protocol_type, desk.answers[early].protocol_name) == ("consumer", "range")
    assert state(desk) is State.STABLE


def test_a_follower_that_asks_after_the_leader_is_answered_at_once() -> None:
    desk = GroupDesk()
    leader, follower, generation = two_joined(desk)
    desk.sync(leader, generation, {leader: b"half", follower: b"rest"})

    assert bytes(desk.answers[desk.sync(follower, generation)].assignment) == b"rest"


def test_nobody_hears_of_an_assignment_before_it_is_committed() -> None:
    desk = GroupDesk()
    leader, follower, generation = two_joined(desk)
    early = desk.sync(follower, generation)
    desk.journal.holds = True

    late = desk.sync(leader, generation, {leader: b"half", follower: b"rest"})
    again = desk.sync(follower, generation)
    assert desk.waits(early) and desk.waits(late) and desk.waits(again)
    desk.journal.release()

    assert {bytes(desk.answers[number].assignment) for number in (early, again)} == {b"rest"}


def test_when_the_assignment_cannot_be_written_the_group_still_waits_for_one() -> None:
    desk = GroupDesk()
    leader, follower, generation = two_joined(desk)
    early = desk.sync(follower, generation)
    desk.journal.refusal = ProtocolError(ErrorCode.NOT_ENOUGH_REPLICAS)

    lost = desk.sync(leader, generation, {leader: b"half", follower: b"rest"})
    assert state(desk) is State.COMPLETING_REBALANCE
    assert {desk.answers[number].error_code for number in (early, lost)} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    desk.journal.refusal = None
    again = desk.sync(follower, generation)
    desk.sync(leader, generation, {leader: b"half", follower: b"rest"})

    assert bytes(desk.answers[again].assignment) == b"rest"


def test_an_assignment_that_is_lost_with_the_leadership_is_withdrawn_from_all_who_waited_for_it() -> None:
    desk = GroupDesk()
    leader, follower, generation = two_joined(desk)
    early = desk.sync(follower, generation)
    desk.journal.holds = True
    late = desk.sync(leader, generation, {leader: b"half", follower: b"rest"})

    desk.reload()

    assert {desk.answers[number].error_code for number in (early, late)} == {ErrorCode.NOT_COORDINATOR}


def test_who_is_given_nothing_gets_an_empty_assignment() -> None:
    desk = GroupDesk()
    leader, follower, generation = two_joined(desk)

    desk.sync(leader, generation, {leader: b"all", "nobody": b"x"})

    assert desk.answers[desk.sync(follower, generation)].assignment == b""


def test_a_second_request_of_the_same_member_takes_the_place_of_the_first() -> None:
    desk = GroupDesk()
    leader, follower, generation = two_joined(desk)
    lost = desk.sync(follower, generation)

    again = desk.sync(follower, generation)
    desk.sync(leader, generation, {follower: b"rest"})

    assert desk.answers[lost].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert desk.answers[again].assignment == b"rest"


@pytest.mark.parametrize("offset", [-1, 1])
def test_another_generation_is_refused(offset: int) -> None:
    desk = GroupDesk()
    leader, _, generation = two_joined(desk)

    answer = desk.answers[desk.sync(leader, generation + offset, {})]

    assert answer.error_code == ErrorCode.ILLEGAL_GENERATION
    assert state(desk) is State.COMPLETING_REBALANCE


@pytest.mark.parametrize(("protocol_type", "protocol_name"), [("connect", "range"), ("consumer", "sticky")])
def test_another_protocol_is_refused(protocol_type: str, protocol_name: str) -> None:
    desk = GroupDesk()
    leader, _, generation = two_joined(desk)

    number = desk.sync(leader, generation, protocol_type=protocol_type, protocol_name=protocol_name)

    assert desk.answers[number].error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_before_version_5_no_protocol_is_named_and_none_is_checked() -> None:
    desk = GroupDesk()
    leader, _, generation = two_joined(desk)

    number = desk.sync(leader, generation, {leader: b"all"}, protocol_type=None, protocol_name=None, version=4)

    assert desk.answers[number].assignment == b"all"


def test_from_version_5_on_a_protocol_must_be_named() -> None:
    desk = GroupDesk()
    leader, _, generation = two_joined(desk)

    unnamed = desk.sync(leader, generation, protocol_name=None)

    assert desk.answers[unnamed].error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_unknown_groups_and_members_are_refused() -> None:
    desk = GroupDesk()
    desk.stable_group()

    assert desk.answers[desk.sync("nobody", 1)].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.answers[desk.sync("nobody", 1, group_id="none")].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.answers[desk.sync("nobody", 1, group_id="")].error_code == ErrorCode.INVALID_GROUP_ID


def test_a_rebalance_that_begins_sends_those_that_wait_for_an_assignment_back_to_join() -> None:
    desk = GroupDesk()
    _, follower, generation = two_joined(desk)
    waiting = desk.sync(follower, generation)

    desk.new_member()

    assert desk.answers[waiting].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert desk.answers[desk.sync(follower, generation)].error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_leader_that_never_brings_the_assignment_is_out_after_the_rebalance_timeout() -> None:
    desk = GroupDesk()
    leader, follower, generation = two_joined(desk)
    waiting = desk.sync(follower, generation)
    for _ in range(12):
        desk.pass_time(5_000)
        desk.heartbeat(leader, generation)

    assert desk.answers[waiting].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert desk.heartbeat(leader, generation) == ErrorCode.UNKNOWN_MEMBER_ID
    again = desk.answers[desk.join(follower)]

    assert (again.leader, again.generation_id) == (follower, generation + 1)


def test_a_follower_that_never_asks_for_its_assignment_is_out_after_the_rebalance_timeout() -> None:
    desk = GroupDesk()
    leader, follower, generation = two_joined(desk)
    desk.sync(leader, generation, {leader: b"half", follower: b"rest"})
    for _ in range(12):
        desk.pass_time(5_000)
        desk.heartbeat(leader, generation), desk.heartbeat(follower, generation)

    assert desk.heartbeat(follower, generation) == ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.heartbeat(leader, generation) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_member_that_waits_for_its_assignment_needs_no_heartbeat() -> None:
    desk = GroupDesk()
    leader, follower, generation = two_joined(desk)
    waiting = desk.sync(follower, generation)
    for _ in range(10):
        desk.pass_time(5_000)
        desk.heartbeat(leader, generation)

    desk.sync(leader, generation, {follower: b"rest"})
    assert desk.answers[waiting].assignment == b"rest"
    desk.pass_time(9_000)

    assert desk.heartbeat(follower, generation) == ErrorCode.NONE
