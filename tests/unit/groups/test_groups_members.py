from __future__ import annotations

import pytest

from harness.group_desk import GROUP, GroupDesk
from tidelog.groups.classic.states import State
from tidelog.model.errors import ErrorCode


def state(desk: GroupDesk) -> State:
    return desk.shard.groups[GROUP].state  # type: ignore[union-attr]


def test_heartbeats_keep_a_session() -> None:
    desk = GroupDesk()
    (member,) = desk.stable_group()

    for _ in range(10):
        desk.pass_time(9_999)
        assert desk.heartbeat(member, 1) == ErrorCode.NONE


@pytest.mark.req("L1")
def test_a_member_that_is_silent_for_its_session_timeout_is_out() -> None:
    desk = GroupDesk()
    silent, alive = desk.stable_group(2)

    desk.pass_time(6_000)
    desk.heartbeat(alive, 2)
    desk.pass_time(4_000)

    assert desk.heartbeat(silent, 2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.heartbeat(alive, 2) == ErrorCode.REBALANCE_IN_PROGRESS
    assert desk.answers[desk.join(alive)].generation_id == 3


def test_when_all_are_silent_the_group_is_empty_in_a_generation_of_its_own() -> None:
    desk = GroupDesk()
    desk.stable_group(2)

    desk.pass_time(10_000)

    assert (state(desk), desk.shard.groups[GROUP].generation) == (State.EMPTY, 3)
    desk.reload()
    assert (state(desk), desk.shard.groups[GROUP].generation) == (State.EMPTY, 3)


def test_a_heartbeat_of_another_generation_is_refused_and_keeps_no_session() -> None:
    desk = GroupDesk()
    (member,) = desk.stable_group()

    desk.pass_time(9_999)
    assert desk.heartbeat(member, 0) == ErrorCode.ILLEGAL_GENERATION
    desk.pass_time(1)

    assert desk.heartbeat(member, 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_heartbeats_of_unknown_groups_and_members_are_refused() -> None:
    desk = GroupDesk()
    desk.stable_group()

    assert desk.heartbeat("nobody", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.heartbeat("nobody", 1, group_id="none") == ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.heartbeat("nobody", 1, group_id="") == ErrorCode.INVALID_GROUP_ID


def test_a_member_may_heartbeat_before_it_asks_for_its_assignment() -> None:
    desk = GroupDesk()
    member, _ = desk.new_member()

    assert desk.heartbeat(member, 1) == ErrorCode.NONE


@pytest.mark.req("L1")
def test_who_leaves_makes_the_others_share_its_part_at_once() -> None:
    desk = GroupDesk()
    leader, follower = desk.stable_group(2)

    left = desk.answers[desk.leave(leader)]

    assert (left.error_code, [each.error_code for each in left.members]) == (0, [0])
    assert desk.heartbeat(follower, 2) == ErrorCode.REBALANCE_IN_PROGRESS
    again = desk.answers[desk.join(follower)]
    assert (again.generation_id, again.leader) == (3, follower)


def test_when_the_last_member_leaves_the_group_is_empty() -> None:
    desk = GroupDesk()
    (member,) = desk.stable_group()

    desk.leave(member)

    assert state(desk) is State.EMPTY
    assert desk.heartbeat(member, 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_leaves_while_it_waits_to_join_is_told_so_there_too() -> None:
    desk = GroupDesk()
    leader, follower = desk.stable_group(2)
    waiting = desk.join(leader)

    desk.leave(leader)
    assert desk.answers[waiting].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    again = desk.join(follower)

    assert desk.answers[again].leader == follower


def test_when_the_one_that_all_wait_for_leaves_the_rebalance_completes() -> None:
    desk = GroupDesk()
    leader, follower = desk.stable_group(2)
    waiting = desk.join(leader)

    desk.leave(follower)

    assert desk.answers[waiting].generation_id == 3


def test_a_leader_that_leaves_while_others_wait_for_its_assignment_sends_them_back_to_join() -> None:
    desk = GroupDesk()
    leader, follower = desk.stable_group(2)
    desk.join(leader)
    desk.join(follower)
    waiting = desk.sync(follower, 3)

    desk.leave(leader)

    assert desk.answers[waiting].error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_several_members_leave_with_one_request_and_each_gets_its_answer() -> None:
    desk = GroupDesk()
    first, second, third = desk.stable_group(3)

    answer = desk.answers[desk.leave(first, "nobody", second)]

    assert [(each.member_id, each.error_code) for each in answer.members] == [
        (first, 0),
        ("nobody", ErrorCode.UNKNOWN_MEMBER_ID),
        (second, 0),
    ]
    assert list(desk.shard.groups[GROUP].members) == [third]


def test_before_version_3_the_one_answer_is_that_of_the_member() -> None:
    desk = GroupDesk()
    (member,) = desk.stable_group()

    assert desk.answers[desk.leave("nobody", version=2)].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.answers[desk.leave(member, version=2)].error_code == ErrorCode.NONE
    assert desk.answers[desk.leave(member, version=2, group_id="none")].error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_leaving_a_group_that_is_not_there_is_refused_for_each_member() -> None:
    desk = GroupDesk()

    answer = desk.answers[desk.leave("a", "b", group_id="none")]

    assert answer.error_code == ErrorCode.NONE
    assert [each.error_code for each in answer.members] == [ErrorCode.UNKNOWN_MEMBER_ID] * 2
    assert desk.answers[desk.leave("a", group_id="")].error_code == ErrorCode.INVALID_GROUP_ID


def test_an_id_that_was_given_out_can_leave_before_it_joins_and_no_one_waits_for_it() -> None:
    desk = GroupDesk()
    (first,) = desk.stable_group()
    given = desk.answers[desk.join()].member_id
    waiting = desk.join(first)
    assert desk.waits(waiting)

    answer = desk.answers[desk.leave(given)]

    assert [each.error_code for each in answer.members] == [0]
    assert desk.answers[waiting].generation_id == 2


def static(desk: GroupDesk, **how: object) -> str:
    """One static member in a stable group; its member id."""
    number = desk.join(instance_id="shelf", **how)  # type: ignore[arg-type]
    joined = desk.answers[number]
    desk.sync(joined.member_id, joined.generation_id, {joined.member_id: b"all"}, instance_id="shelf")
    return str(joined.member_id)


def test_a_static_member_joins_with_one_request_and_its_id_tells_its_instance() -> None:
    desk = GroupDesk()

    member = static(desk)

    assert member.startswith("shelf-")
    assert state(desk) is State.STABLE


def test_a_static_member_that_starts_again_takes_its_place_without_a_rebalance() -> None:
    desk = GroupDesk()
    before = static(desk)

    answer = desk.answers[desk.join(instance_id="shelf")]

    assert answer.member_id != before
    assert (answer.generation_id, answer.leader, answer.skip_assignment) == (1, answer.member_id, True)
    assert [member.member_id for member in answer.members] == [answer.member_id]
    assert state(desk) is State.STABLE
    assert desk.answers[desk.sync(answer.member_id, 1, instance_id="shelf")].assignment == b"all"


def test_before_version_9_a_static_leader_that_starts_again_does_not_hear_that_it_leads() -> None:
    desk = GroupDesk()
    before = static(desk)

    answer = desk.answers[desk.join(instance_id="shelf", version=8)]

    assert (answer.leader, answer.members, answer.skip_assignment) == (before, [], False)


def test_the_place_that_a_static_member_took_again_outlives_a_reload() -> None:
    desk = GroupDesk()
    static(desk)
    after = desk.answers[desk.join(instance_id="shelf")].member_id

    desk.reload()

    assert desk.heartbeat(after, 1, instance_id="shelf") == ErrorCode.NONE
    assert list(desk.shard.groups[GROUP].members) == [after]
    assert desk.shard.groups[GROUP].leader_id == after


def test_the_process_whose_place_was_taken_is_fenced_everywhere() -> None:
    desk = GroupDesk()
    before = static(desk)
    desk.join(instance_id="shelf")

    assert desk.heartbeat(before, 1, instance_id="shelf") == ErrorCode.FENCED_INSTANCE_ID
    assert desk.answers[desk.sync(before, 1, instance_id="shelf")].error_code == ErrorCode.FENCED_INSTANCE_ID
    assert desk.answers[desk.join(before, instance_id="shelf")].error_code == ErrorCode.FENCED_INSTANCE_ID
    left = desk.answers[desk.leave((before, "shelf"))]
    assert [each.error_code for each in left.members] == [ErrorCode.FENCED_INSTANCE_ID]


def test_the_process_whose_place_is_taken_while_it_waits_is_fenced_there() -> None:
    desk = GroupDesk()
    before = static(desk)
    desk.new_member()
    waiting = desk.join(before, instance_id="shelf")
    assert not desk.waits(waiting)
    desk.new_member()
    waiting = desk.join(before, instance_id="shelf")
    assert desk.waits(waiting)

    desk.join(instance_id="shelf")

    assert desk.answers[waiting].error_code == ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_that_starts_again_while_the_leader_assigns_begins_another_rebalance() -> None:
    desk = GroupDesk()
    before = static(desk)
    other, _ = desk.new_member()
    desk.join(before, instance_id="shelf")
    assert state(desk) is State.COMPLETING_REBALANCE

    number = desk.join(instance_id="shelf")

    assert state(desk) is State.PREPARING_REBALANCE
    desk.join(other)
    assert desk.answers[number].generation_id == 3


def test_a_static_member_that_starts_again_and_speaks_otherwise_begins_a_rebalance() -> None:
    desk = GroupDesk()
    static(desk, protocols=["range"])

    answer = desk.answers[desk.join(instance_id="shelf", protocols=["sticky"])]

    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    desk = GroupDesk()
    static(desk, protocols=["range", "sticky"])
    answer = desk.answers[desk.join(instance_id="shelf", protocols=["sticky", "range"])]
    assert (answer.generation_id, answer.protocol_name) == (2, "sticky")


def test_a_static_member_that_misses_a_rebalance_stays_until_its_session_ends() -> None:
    desk = GroupDesk()
    before = static(desk, session_timeout_ms=100_000, rebalance_timeout_ms=10_000)
    newcomer, waiting = desk.new_member(rebalance_timeout_ms=10_000)

    desk.pass_time(10_000)

    assert [member.member_id for member in desk.answers[waiting].members] == [before, newcomer]
    assert desk.answers[waiting].leader == newcomer


def test_an_operator_removes_a_static_member_by_its_instance_id_alone() -> None:
    desk = GroupDesk()
    static(desk)

    answer = desk.answers[desk.leave(("", "shelf"), ("", "none"))]

    assert [each.error_code for each in answer.members] == [0, ErrorCode.UNKNOWN_MEMBER_ID]
    assert state(desk) is State.EMPTY


def test_two_instances_of_one_group_are_two_members() -> None:
    desk = GroupDesk()
    static(desk)

    number = desk.join(instance_id="table")

    assert desk.waits(number)
    assert len(desk.shard.groups[GROUP].members) == 2


def test_a_static_member_that_says_another_instance_is_unknown() -> None:
    desk = GroupDesk()
    member = static(desk)

    assert desk.heartbeat(member, 1, instance_id="table") == ErrorCode.UNKNOWN_MEMBER_ID
