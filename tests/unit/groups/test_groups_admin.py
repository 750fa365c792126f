from __future__ import annotations

import pytest

from harness.group_desk import GROUP, GroupDesk, subscription
from tidelog.groups.admin import delete_group, describe_group, list_groups
from tidelog.groups.refusals import refusal
from tidelog.model.errors import ErrorCode
from tidelog.wire.compiler import encode
from tidelog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tidelog.wire.messages.heartbeat import HeartbeatRequest
from tidelog.wire.messages.join_group import JoinGroupRequest
from tidelog.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.wire.messages.offset_delete import OffsetDeleteRequest
from tidelog.wire.messages.sync_group import SyncGroupRequest
from tidelog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tidelog.wire.schema import Request, VersionRange


def test_groups_are_listed_with_state_and_type() -> None:
    desk = GroupDesk()
    desk.stable_group()
    desk.join(group_id="coming")

    listed = desk.read(list_groups)

    assert {(each.group_id, each.protocol_type, each.group_state, each.group_type) for each in listed} == {
        (GROUP, "consumer", "Stable", "classic"),
        ("coming", "", "Empty", "classic"),
    }


@pytest.mark.parametrize(
    ("states", "types", "expected"),
    [
        (["stable"], [], {GROUP}),
        (["Empty", "PreparingRebalance"], [], {"coming"}),
        (["Dead"], [], set()),
        ([], ["classic"], {GROUP, "coming"}),
        ([], ["consumer"], set()),
        ([], ["nonsense"], set()),
        (["Stable"], ["Classic"], {GROUP}),
    ],
)
def test_groups_are_listed_by_state_and_type(states: list[str], types: list[str], expected: set[str]) -> None:
    desk = GroupDesk()
    desk.stable_group()
    desk.join(group_id="coming")

    listed = desk.read(lambda shard: list_groups(shard, states, types))

    assert {each.group_id for each in listed} == expected


def test_a_stable_group_is_described_with_what_its_members_subscribe_to_and_have() -> None:
    desk = GroupDesk()
    (member,) = desk.stable_group(client_id="billing")

    described = desk.read(lambda shard: describe_group(shard, GROUP, 6))

    assert (described.error_code, described.group_state) == (0, "Stable")
    assert (described.protocol_type, described.protocol_data) == ("consumer", "range")
    (only,) = described.members
    assert (only.member_id, only.client_id, only.client_host) == (member, "billing", "/127.0.0.1")
    assert (only.member_metadata, only.member_assignment) == (subscription("orders"), f"part of {member}".encode())


def test_a_group_that_rebalances_is_described_without_metadata() -> None:
    desk = GroupDesk()
    leader, _ = desk.stable_group(2)
    desk.join(leader)

    described = desk.read(lambda shard: describe_group(shard, GROUP, 6))

    assert (described.group_state, described.protocol_data) == ("PreparingRebalance", "")
    assert {bytes(member.member_metadata) for member in described.members} == {b""}


@pytest.mark.parametrize(("version", "expected"), [(5, ErrorCode.NONE), (6, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_an_unknown_group_is_described_as_dead(version: int, expected: ErrorCode) -> None:
    described = GroupDesk().read(lambda shard: describe_group(shard, "none", version))

    assert (described.error_code, described.group_state) == (expected, "Dead")
    assert (described.error_message is None) == (version < 6)


def test_an_empty_group_is_deleted_with_its_offsets() -> None:
    desk = GroupDesk()
    (member,) = desk.stable_group()
    desk.leave(member)

    assert desk.read(lambda shard: delete_group(shard, GROUP)).error_code == ErrorCode.NONE
    assert not desk.shard.groups
    desk.reload()

    assert not desk.shard.groups
    assert not desk.shard.offsets.by_group


def test_a_group_with_members_or_none_that_is_known_cannot_be_deleted() -> None:
    desk = GroupDesk()
    leader, _ = desk.stable_group(2)

    assert desk.read(lambda shard: delete_group(shard, GROUP)).error_code == ErrorCode.NON_EMPTY_GROUP
    desk.join(leader)
    assert desk.read(lambda shard: delete_group(shard, GROUP)).error_code == ErrorCode.NON_EMPTY_GROUP
    assert desk.read(lambda shard: delete_group(shard, "none")).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_no_alarm_goes_off_for_a_group_that_was_deleted() -> None:
    desk = GroupDesk()
    desk.join()

    desk.read(lambda shard: delete_group(shard, GROUP))
    desk.pass_time(1_000_000)

    assert not desk.shard.groups


REQUESTS: list[Request] = [
    JoinGroupRequest(member_id="a"),
    SyncGroupRequest(),
    HeartbeatRequest(),
    LeaveGroupRequest(member_id="a", members=[MemberIdentity("a")]),
    OffsetCommitRequest(topics=[OffsetCommitRequestTopic("orders", partitions=[OffsetCommitRequestPartition(1)])]),
    TxnOffsetCommitRequest(topics=[TxnOffsetCommitRequestTopic("orders", [TxnOffsetCommitRequestPartition(1)])]),
    OffsetDeleteRequest(),
    ConsumerGroupHeartbeatRequest(),
]


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: type(request).__name__)
def test_every_request_can_be_refused_in_every_version(request_: Request) -> None:
    for version in range(VersionRange.parse(request_.VERSIONS).first, VersionRange.parse(request_.VERSIONS).last + 1):
        response = refusal(request_, version, ErrorCode.NOT_COORDINATOR)

        assert isinstance(response, request_.RESPONSE)
        assert ErrorCode.NOT_COORDINATOR.to_bytes(2) in encode(response, version)


def test_while_groups_are_loaded_every_heartbeat_is_fine() -> None:
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    assert refusal(HeartbeatRequest(), 4, loading).error_code == ErrorCode.NONE  # type: ignore[attr-defined]
    assert refusal(SyncGroupRequest(), 4, loading).error_code == loading  # type: ignore[attr-defined]


def test_members_are_told_of_a_failed_write_what_they_can_act_on() -> None:
    response = refusal(SyncGroupRequest(), 5, ErrorCode.NOT_ENOUGH_REPLICAS)

    assert response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE  # type: ignore[attr-defined]
