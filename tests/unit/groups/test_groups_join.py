from __future__ import annotations

import pytest

from harness.group_desk import GROUP, QUICK, GroupDesk, read_back, subscription
from tidelog.groups.classic.states import LEGAL_MOVES, State
from tidelog.groups.records import GroupRecord
from tidelog.groups.settings import Settings
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.group_records import GroupMetadataValue


def state(desk: GroupDesk, group_id: str = GROUP) -> State:
    group = desk.shard.groups[group_id]
    return group.state  # type: ignore[union-attr]


def test_every_state_has_its_legal_moves_and_only_a_dead_group_stays_as_it_is() -> None:
    assert set(LEGAL_MOVES) == set(State)
    assert all(State.DEAD in moves for moves in LEGAL_MOVES.values())
    assert LEGAL_MOVES[State.DEAD] == {State.DEAD}
    assert State.STABLE in LEGAL_MOVES[State.COMPLETING_REBALANCE]
    assert not any(State.STABLE in LEGAL_MOVES[other] for other in State if other is not State.COMPLETING_REBALANCE)


def test_a_newcomer_first_gets_an_id_and_joins_with_it() -> None:
    desk = GroupDesk()

    first = desk.answers[desk.join(client_id="billing")]
    assert (first.error_code, first.generation_id) == (ErrorCode.MEMBER_ID_REQUIRED, -1)
    assert first.member_id.startswith("billing-")
    second = desk.answers[desk.join(first.member_id)]

    assert (second.error_code, second.generation_id) == (ErrorCode.NONE, 1)
    assert second.member_id == second.leader == first.member_id
    assert [(member.member_id, bytes(member.metadata)) for member in second.members] == [
        (first.member_id, subscription("orders"))
    ]
    assert (second.protocol_type, second.protocol_name, second.skip_assignment) == ("consumer", "range", False)


@pytest.mark.parametrize("version", [0, 3])
def test_before_version_4_a_newcomer_joins_with_one_request(version: int) -> None:
    desk = GroupDesk()

    answer = desk.answers[desk.join(version=version)]

    assert (answer.error_code, answer.generation_id) == (ErrorCode.NONE, 1)
    assert answer.member_id.startswith("client-")


@pytest.mark.parametrize(("version", "expected"), [(6, ""), (7, None)])
def test_a_refusal_names_no_protocol_as_its_version_can_say_it(version: int, expected: str | None) -> None:
    desk = GroupDesk()

    assert desk.answers[desk.join("nobody", version=version)].protocol_name == expected


def test_an_unknown_member_of_an_unknown_group_is_refused_and_the_group_is_not_created() -> None:
    desk = GroupDesk()

    answer = desk.answers[desk.join("nobody")]

    assert (answer.error_code, answer.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "nobody")
    assert not desk.shard.groups
    assert not desk.journal.batches


def test_an_unknown_member_of_a_known_group_is_refused() -> None:
    desk = GroupDesk()
    desk.stable_group()

    assert desk.answers[desk.join("nobody")].error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_needs_a_name() -> None:
    assert GroupDesk().join(group_id="") == 1
    desk = GroupDesk()
    assert desk.answers[desk.join(group_id="")].error_code == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("session_timeout_ms", [5_999, 1_800_001])
def test_a_session_timeout_out_of_bounds_is_refused(session_timeout_ms: int) -> None:
    desk = GroupDesk()

    answer = desk.answers[desk.join(session_timeout_ms=session_timeout_ms)]

    assert answer.error_code == ErrorCode.INVALID_SESSION_TIMEOUT


@pytest.mark.parametrize(("protocol_type", "protocols"), [("", ["range"]), ("consumer", [])])
def test_the_first_member_needs_a_protocol(protocol_type: str, protocols: list[str]) -> None:
    desk = GroupDesk()

    answer = desk.answers[desk.join(protocol_type=protocol_type, protocols=protocols)]

    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert not desk.shard.groups


@pytest.mark.parametrize(("protocol_type", "protocols"), [("connect", ["range"]), ("consumer", ["sticky"])])
def test_who_shares_no_protocol_with_all_members_is_refused(protocol_type: str, protocols: list[str]) -> None:
    desk = GroupDesk()
    desk.stable_group(protocols=["range", "roundrobin"])

    answer = desk.answers[desk.join(protocol_type=protocol_type, protocols=protocols)]

    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert state(desk) is State.STABLE


def test_members_vote_for_the_protocol_among_those_that_all_speak() -> None:
    desk = GroupDesk(Settings(initial_rebalance_delay_ms=1000))
    numbers = [
        desk.new_member(protocols=["mine", "range", "sticky"])[1],
        desk.new_member(protocols=["sticky", "range"])[1],
        desk.new_member(protocols=["sticky", "other", "range"])[1],
    ]

    desk.pass_time(10_000)

    assert {desk.answers[number].protocol_name for number in numbers} == {"sticky"}


def test_the_first_members_of_an_empty_group_are_waited_for_together() -> None:
    desk = GroupDesk(Settings(initial_rebalance_delay_ms=3000))
    _, first = desk.new_member()
    desk.pass_time(2900)
    _, second = desk.new_member()
    desk.pass_time(2900)
    assert desk.waits(first) and desk.waits(second)

    desk.pass_time(200)

    assert desk.answers[first].generation_id == desk.answers[second].generation_id == 1
    assert len(desk.answers[first].members) == 2
    assert desk.answers[second].members == []


def test_the_initial_delay_is_not_prolonged_beyond_the_rebalance_timeout() -> None:
    desk = GroupDesk(Settings(initial_rebalance_delay_ms=3000))
    numbers = []
    for _ in range(20):
        numbers.append(desk.new_member(rebalance_timeout_ms=7000)[1])
        desk.pass_time(1000)
        if not desk.waits(numbers[0]):
            break

    assert len(numbers) == 7
    assert len(desk.answers[numbers[0]].members) == 7


@pytest.mark.req("L1", "L4", "A21")
def test_a_newcomer_makes_all_members_join_again() -> None:
    desk = GroupDesk()
    (first,) = desk.stable_group()

    newcomer, waiting = desk.new_member()

    assert desk.waits(waiting)
    assert state(desk) is State.PREPARING_REBALANCE
    assert desk.heartbeat(first, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    again = desk.join(first)
    assert desk.answers[again].generation_id == desk.answers[waiting].generation_id == 2
    assert [member.member_id for member in desk.answers[again].members] == [first, newcomer]


def test_who_does_not_join_again_in_time_is_out() -> None:
    desk = GroupDesk()
    first, second = desk.stable_group(2)

    newcomer, waiting = desk.new_member()
    for _ in range(13):
        desk.pass_time(5_000)
        desk.heartbeat(first, 2), desk.heartbeat(second, 2)

    assert [member.member_id for member in desk.answers[waiting].members] == [newcomer]
    assert desk.heartbeat(first, 2) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_waits_for_an_id_that_was_given_out_but_no_longer_than_its_session() -> None:
    desk = GroupDesk()
    (first,) = desk.stable_group()
    desk.join()
    _, second = desk.new_member()
    again = desk.join(first)
    assert desk.waits(second) and desk.waits(again)

    desk.pass_time(10_000)

    assert len(desk.answers[again].members) == 2


def test_an_id_that_was_given_out_is_good_for_one_session_timeout() -> None:
    desk = GroupDesk()
    given = desk.answers[desk.join()].member_id

    desk.pass_time(10_000)

    assert desk.answers[desk.join(given)].error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_answer_can_be_had_again_while_the_assignment_is_awaited() -> None:
    desk = GroupDesk()
    first, number = desk.new_member()

    again = desk.answers[desk.join(first)]

    assert again.generation_id == desk.answers[number].generation_id == 1
    assert len(again.members) == 1
    assert state(desk) is State.COMPLETING_REBALANCE


def test_new_metadata_while_the_assignment_is_awaited_begins_another_rebalance() -> None:
    desk = GroupDesk()
    first, _ = desk.new_member()

    again = desk.answers[desk.join(first, topics=["orders", "prices"])]

    assert again.generation_id == 2


@pytest.mark.req("L2", "L3")
def test_a_leader_that_joins_again_begins_a_rebalance() -> None:
    desk = GroupDesk()
    leader, follower = desk.stable_group(2)

    number = desk.join(leader)

    assert desk.waits(number)
    assert desk.heartbeat(follower, 2) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_follower_that_joins_again_unchanged_gets_the_same_generation() -> None:
    desk = GroupDesk()
    _, follower = desk.stable_group(2)

    answer = desk.answers[desk.join(follower)]

    assert (answer.generation_id, answer.members) == (2, [])
    assert state(desk) is State.STABLE


@pytest.mark.req("L2")
def test_a_follower_that_subscribes_to_something_else_begins_a_rebalance() -> None:
    desk = GroupDesk()
    leader, follower = desk.stable_group(2)

    number = desk.join(follower, topics=["prices"])
    assert desk.heartbeat(leader, 2) == ErrorCode.REBALANCE_IN_PROGRESS
    desk.join(leader)

    assert desk.answers[number].generation_id == 3


def test_a_second_join_of_the_same_member_takes_the_place_of_the_first() -> None:
    desk = GroupDesk()
    leader, follower = desk.stable_group(2)
    lost = desk.join(leader)

    number = desk.join(leader)
    assert desk.answers[lost].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert desk.waits(number)
    desk.join(follower)

    assert desk.answers[number].generation_id == 3
    assert len(desk.answers[number].members) == 2


def test_when_the_leader_does_not_come_back_another_leads() -> None:
    desk = GroupDesk()
    leader, follower = desk.stable_group(2)
    number = desk.join(follower, topics=["prices"])

    desk.pass_time(60_000)

    assert leader != follower
    assert desk.answers[number].leader == follower
    assert [member.member_id for member in desk.answers[number].members] == [follower]


def test_a_group_takes_no_more_members_than_its_limit() -> None:
    desk = GroupDesk(Settings(initial_rebalance_delay_ms=0, group_size_max=2))
    desk.stable_group(2)

    answer = desk.answers[desk.join()]

    assert answer.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert state(desk) is State.STABLE


def test_while_a_group_rebalances_those_that_joined_first_fill_it() -> None:
    desk = GroupDesk(Settings(initial_rebalance_delay_ms=3000, group_size_max=2))
    ids = [desk.answers[desk.join()].member_id for _ in range(3)]

    numbers = [desk.join(member) for member in ids]
    desk.pass_time(10_000)

    assert [desk.answers[number].error_code for number in numbers] == [0, 0, ErrorCode.GROUP_MAX_SIZE_REACHED]


def test_a_lowered_limit_is_kept_after_a_reload_by_a_rebalance() -> None:
    desk = GroupDesk()
    ids = desk.stable_group(3)
    desk.settings = Settings(initial_rebalance_delay_ms=0, group_size_max=2)

    desk.reload()
    assert desk.heartbeat(ids[0], 3) == ErrorCode.REBALANCE_IN_PROGRESS
    numbers = [desk.join(member) for member in ids]

    errors = [desk.answers[number].error_code for number in numbers]
    assert errors == [0, 0, ErrorCode.GROUP_MAX_SIZE_REACHED]


def test_a_new_member_that_waits_too_long_is_told_to_begin_anew() -> None:
    desk = GroupDesk()
    (first,) = desk.stable_group(rebalance_timeout_ms=1_000_000)
    _, waiting = desk.new_member(rebalance_timeout_ms=1_000_000)

    for _ in range(61):
        desk.pass_time(5_000)
        desk.heartbeat(first, 1)

    assert desk.answers[waiting].error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_waits_to_join_again_needs_no_heartbeat() -> None:
    desk = GroupDesk()
    first, second = desk.stable_group(2, rebalance_timeout_ms=300_000)
    waiting = desk.join(first, rebalance_timeout_ms=300_000)

    for _ in range(20):
        desk.pass_time(5_000)
        desk.heartbeat(second, 2)
    assert desk.waits(waiting)
    desk.join(second, rebalance_timeout_ms=300_000)

    assert len(desk.answers[waiting].members) == 2


@pytest.mark.req("K11")
def test_a_group_is_written_when_it_is_created_and_when_it_is_assigned() -> None:
    desk = GroupDesk()

    (member,) = desk.stable_group()

    values = [read_back(record) for batch in desk.journal.batches for record in batch]
    assert all(isinstance(record, GroupRecord) for record in values)
    created, assigned = (record.value for record in values if isinstance(record, GroupRecord))
    assert isinstance(created, GroupMetadataValue) and isinstance(assigned, GroupMetadataValue)
    assert (created.generation, created.members, created.protocol_type) == (0, [], "")
    assert (assigned.generation, assigned.leader, assigned.protocol) == (1, member, "range")
    assert [bytes(each.assignment) for each in assigned.members] == [f"part of {member}".encode()]


@pytest.mark.req("K11")
def test_after_a_reload_members_go_on_as_if_nothing_had_been() -> None:
    desk = GroupDesk()
    first, second = desk.stable_group(2)

    desk.pass_time(9_000)
    desk.reload()
    desk.pass_time(9_000)

    assert desk.heartbeat(first, 2) == desk.heartbeat(second, 2) == ErrorCode.NONE
    assert bytes(desk.answers[desk.sync(second, 2)].assignment) == f"part of {second}".encode()


def test_on_losing_the_group_who_waits_is_told_to_look_for_the_coordinator() -> None:
    desk = GroupDesk()
    first, second = desk.stable_group(2)
    joining = desk.join(first)
    desk.reload()
    assert desk.answers[joining].error_code == ErrorCode.NOT_COORDINATOR

    desk.join(first)
    desk.join(second)
    syncing = desk.sync(second, 3)
    desk.reload()

    assert desk.answers[syncing].error_code == ErrorCode.NOT_COORDINATOR
    assert state(desk) is State.STABLE


def test_in_version_0_the_session_timeout_bounds_the_rebalance_too() -> None:
    desk = GroupDesk()
    desk.join(version=0, rebalance_timeout_ms=-1)

    (member,) = desk.shard.groups[GROUP].members.values()
    assert member.rebalance_timeout_ms == 10_000


def test_of_two_protocols_with_one_name_the_first_counts() -> None:
    desk = GroupDesk(QUICK)

    (member,) = desk.stable_group(protocols=["range", "range"])

    assert desk.shard.groups[GROUP].members[member].protocols == (("range", subscription("orders")),)
