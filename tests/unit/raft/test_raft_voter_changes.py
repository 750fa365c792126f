"""Adding, removing and describing voters anew: one at a time, and only by the leader."""

from __future__ import annotations

from uuid import UUID

import pytest

from harness.raft.desk import SETTINGS, Desk, key, voter, voter_set
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.raft import effects as do
from tidelog.raft import events as on
from tidelog.raft.replicas import ReplicaKey, Voter
from tidelog.raft.roles import RoleName

TIMEOUT_MS = 1000


def leader(**named: object) -> Desk:
    """Node 1 leads voters 1, 2 and 3, and its epoch's first records are committed."""
    desk = Desk(**named)  # type: ignore[arg-type]
    desk.become_established_leader()
    return desk


def add(desk: Desk, node_id: int = 4, *, ack_when_committed: bool = True) -> None:
    desk.call(on.AddVoter, voter(node_id), TIMEOUT_MS, ack_when_committed)


def remove(desk: Desk, node_id: int) -> None:
    desk.call(on.RemoveVoter, key(node_id), TIMEOUT_MS)


def catch_up(desk: Desk, *node_ids: int) -> None:
    for node_id in node_ids:
        desk.fetch(node_id, desk.log.end_offset, desk.log.last_epoch)


def test_an_observer_that_keeps_up_is_added_at_once_and_counts_at_once() -> None:
    desk = leader()
    catch_up(desk, 4)

    add(desk)

    assert desk.only(do.AppendToLog).records == (do.Voters(voter_set(1, 2, 3, 4)),)
    assert desk.quorum.voters == voter_set(1, 2, 3, 4)
    assert not desk.all(do.AnswerVoterChange)

    desk.sync()
    catch_up(desk, 4)
    assert not desk.all(do.CommittedUpTo), "two of four are no majority"
    catch_up(desk, 2)

    assert desk.only(do.CommittedUpTo).offset == desk.log.end_offset
    assert desk.only(do.AnswerVoterChange).error is ErrorCode.NONE


def test_a_new_voter_catches_up_before_it_is_added() -> None:
    desk = leader()
    desk.append(5)

    add(desk)
    assert not desk.all(do.AppendToLog)
    desk.fetch(4, 1, 1)
    assert not desk.all(do.AppendToLog)
    desk.fetch(4, desk.log.end_offset, 1)

    assert desk.only(do.AppendToLog).records == (do.Voters(voter_set(1, 2, 3, 4)),)


def test_one_that_was_seen_long_ago_must_catch_up_again() -> None:
    desk = leader()
    catch_up(desk, 4)
    for _ in range(3):
        desk.pass_time(SETTINGS.fetch_timeout_ms // 2)
        catch_up(desk, 2, 3)

    add(desk)

    assert not desk.all(do.AppendToLog)


def test_one_that_does_not_catch_up_in_time_is_not_added() -> None:
    desk = leader()
    add(desk)

    desk.pass_time(TIMEOUT_MS)

    assert desk.only(do.AnswerVoterChange).error is ErrorCode.REQUEST_TIMED_OUT
    catch_up(desk, 4)
    assert desk.quorum.voters == voter_set(1, 2, 3)


def test_an_answer_may_be_given_before_the_change_is_committed() -> None:
    desk = leader()
    catch_up(desk, 4)

    add(desk, ack_when_committed=False)

    assert desk.only(do.AnswerVoterChange).error is ErrorCode.NONE
    assert desk.quorum.high_watermark < desk.log.end_offset


def test_a_second_change_waits_until_the_first_is_committed() -> None:
    desk = leader()
    catch_up(desk, 4, 5)
    add(desk, 4)
    desk.sync()

    for second in (lambda: add(desk, 5), lambda: remove(desk, 2)):
        second()
        assert desk.only(do.AnswerVoterChange).error is ErrorCode.REQUEST_TIMED_OUT
        assert not desk.all(do.AppendToLog)

    catch_up(desk, 2, 4)
    catch_up(desk, 5)
    add(desk, 5)

    assert desk.only(do.AppendToLog).records == (do.Voters(voter_set(1, 2, 3, 4, 5)),)


def test_a_change_that_timed_out_still_stands_in_the_way_while_it_is_not_committed() -> None:
    desk = leader()
    catch_up(desk, 4)
    add(desk, 4)
    desk.sync()
    desk.pass_time(TIMEOUT_MS)
    assert desk.only(do.AnswerVoterChange).error is ErrorCode.REQUEST_TIMED_OUT

    remove(desk, 2)

    assert desk.only(do.AnswerVoterChange).error is ErrorCode.REQUEST_TIMED_OUT
    assert desk.quorum.voters == voter_set(1, 2, 3, 4)


def test_a_leader_changes_nothing_before_a_record_of_its_own_is_committed() -> None:
    desk = Desk()
    desk.become_leader()

    remove(desk, 3)

    assert desk.only(do.AnswerVoterChange).error is ErrorCode.REQUEST_TIMED_OUT


def test_who_does_not_lead_changes_nothing() -> None:
    desk = Desk()
    desk.start()
    desk.follow(leader=2)

    remove(desk, 3)

    answer = desk.only(do.AnswerVoterChange)
    assert (answer.error, answer.leader) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 2)


def test_voters_that_are_a_setting_are_not_changed() -> None:
    desk = leader(dynamic=False)

    remove(desk, 3)

    assert desk.only(do.AnswerVoterChange).error is ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(
    ("candidate", "error"),
    [
        (voter(3), ErrorCode.DUPLICATE_VOTER),
        (Voter(ReplicaKey(NodeId(3), UUID(int=99))), ErrorCode.DUPLICATE_VOTER),
        (Voter(ReplicaKey(NodeId(4))), ErrorCode.INVALID_REQUEST),
        (Voter(key(4), (), 0, 0), ErrorCode.INVALID_REQUEST),
    ],
    ids=["a voter", "a voter's node with another disk", "no disk", "one that knows static voters only"],
)
def test_not_everybody_can_be_added(candidate: Voter, error: ErrorCode) -> None:
    desk = leader()

    desk.call(on.AddVoter, candidate, TIMEOUT_MS)

    assert desk.only(do.AnswerVoterChange).error is error


def test_only_a_voter_can_be_removed_and_not_the_last_one() -> None:
    desk = leader(voters=(1,))

    for replica in (key(9), ReplicaKey(NodeId(1), UUID(int=99)), key(1)):
        desk.call(on.RemoveVoter, replica, TIMEOUT_MS)

        assert desk.only(do.AnswerVoterChange).error is ErrorCode.VOTER_NOT_FOUND


def test_a_removed_voter_does_not_count_any_more() -> None:
    desk = leader()
    remove(desk, 3)
    desk.sync()

    catch_up(desk, 3)
    assert not desk.all(do.CommittedUpTo)
    catch_up(desk, 2)

    assert desk.only(do.AnswerVoterChange).error is ErrorCode.NONE
    assert desk.quorum.voters == voter_set(1, 2)


def test_a_leader_that_removes_itself_leads_until_that_is_committed() -> None:
    desk = leader()
    remove(desk, 1)
    desk.sync()

    catch_up(desk, 2)
    assert desk.quorum.role is RoleName.LEADER, "it does not count itself"
    catch_up(desk, 3)

    assert desk.only(do.AnswerVoterChange).error is ErrorCode.NONE
    assert desk.quorum.role is RoleName.RESIGNED
    assert {effect.to for effect in desk.all(do.SendEndEpoch)} == {key(2), key(3)}


def test_a_change_is_answered_when_the_leader_is_none_any_more() -> None:
    desk = leader()
    add(desk)

    desk.call(on.BeginEpochRequested, NodeId(2), LeaderEpoch(9))

    answer = desk.only(do.AnswerVoterChange)
    assert (answer.error, answer.epoch, answer.leader) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 9, 2)


def test_a_voter_that_moved_is_described_anew_and_answered_at_once() -> None:
    desk = leader()

    desk.call(on.UpdateVoter, desk.quorum.epoch, voter(2, port=9999))

    assert desk.only(do.AppendToLog).records == (do.Voters(voter_set(1, 2, 3).with_voter(voter(2, port=9999))),)
    assert desk.only(do.AnswerVoterChange).error is ErrorCode.NONE


@pytest.mark.parametrize(
    ("epoch", "described", "error"),
    [
        (0, voter(2), ErrorCode.FENCED_LEADER_EPOCH),
        (9, voter(2), ErrorCode.UNKNOWN_LEADER_EPOCH),
        (1, voter(7), ErrorCode.VOTER_NOT_FOUND),
        (1, Voter(key(2), (), 0, 0), ErrorCode.INVALID_REQUEST),
        (1, voter(2), ErrorCode.NONE),
    ],
)
def test_an_update_that_changes_nothing_writes_nothing(epoch: int, described: Voter, error: ErrorCode) -> None:
    desk = leader()

    desk.call(on.UpdateVoter, LeaderEpoch(epoch), described)

    assert desk.only(do.AnswerVoterChange).error is error
    assert not desk.all(do.AppendToLog)


def test_a_snapshot_names_the_voters_of_its_end() -> None:
    desk = leader()
    before = desk.log.end_offset
    remove(desk, 3)

    assert desk.quorum.voters_at(before) == voter_set(1, 2, 3)
    assert desk.quorum.voters_at(Offset(before + 1)) == voter_set(1, 2)
