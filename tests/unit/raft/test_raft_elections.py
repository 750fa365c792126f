"""Who gets a vote, who gets the promise of one, and what a candidate does with the answers."""

from __future__ import annotations

from uuid import UUID

import pytest

from harness.raft.desk import SETTINGS, Desk, key, log_of
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_NODE, LeaderEpoch, NodeId, Offset
from tidelog.raft import effects as do
from tidelog.raft import events as on
from tidelog.raft.replicas import ReplicaKey
from tidelog.raft.roles import Remembered, RoleName


def ask(
    desk: Desk, epoch: int, last_epoch: int, end: int, *, candidate: int = 2, pre_vote: bool = False
) -> do.AnswerVote:
    desk.call(
        on.VoteRequested, key(candidate), LeaderEpoch(epoch), LeaderEpoch(last_epoch), Offset(end), pre_vote=pre_vote
    )
    return desk.only(do.AnswerVote)


def started(**named: object) -> Desk:
    desk = Desk(**named)  # type: ignore[arg-type]
    desk.start()
    return desk


@pytest.mark.parametrize(
    ("last_epoch", "end", "granted"),
    [(2, 5, True), (2, 6, True), (3, 1, True), (2, 4, False), (1, 9, False)],
    ids=["as long", "longer", "a newer epoch", "shorter", "an older epoch"],
)
@pytest.mark.parametrize("pre_vote", [True, False])
def test_only_a_log_that_is_at_least_as_long_gets_a_vote(
    last_epoch: int, end: int, granted: bool, pre_vote: bool
) -> None:
    desk = started(log=log_of((1, 3), (2, 2)))

    assert ask(desk, 4, last_epoch, end, pre_vote=pre_vote).granted is granted


def test_a_vote_is_remembered_before_it_is_sent() -> None:
    desk = started()

    ask(desk, 1, 0, 0)

    kinds = [type(effect) for effect in desk.effects]
    assert kinds.index(do.PersistState) < kinds.index(do.AnswerVote)
    assert desk.only(do.PersistState) == do.PersistState(LeaderEpoch(1), key(2), NO_NODE)


def test_there_is_one_vote_in_an_epoch_and_it_may_be_repeated() -> None:
    desk = started()

    assert ask(desk, 1, 0, 0, candidate=2).granted
    assert not ask(desk, 1, 0, 0, candidate=3).granted
    assert ask(desk, 1, 0, 0, candidate=2).granted
    assert ask(desk, 2, 0, 0, candidate=3).granted


def test_a_remembered_vote_binds_after_a_restart() -> None:
    desk = started(remembered=Remembered(LeaderEpoch(3), key(2)))

    assert not ask(desk, 3, 0, 0, candidate=3).granted
    assert ask(desk, 3, 0, 0, candidate=2).granted


def test_nobody_votes_in_an_epoch_that_has_a_leader() -> None:
    desk = started(remembered=Remembered(LeaderEpoch(3), None, NodeId(3)))

    answer = ask(desk, 3, 0, 0, candidate=2)

    assert (answer.granted, answer.leader) == (False, 3)


def test_a_promise_binds_nobody_and_is_not_remembered() -> None:
    desk = started()

    assert ask(desk, 0, 0, 0, candidate=2, pre_vote=True).granted
    assert ask(desk, 0, 0, 0, candidate=3, pre_vote=True).granted
    assert desk.quorum.epoch == 0
    assert not desk.all(do.PersistState)


def test_no_promise_is_made_while_the_leader_answers() -> None:
    desk = started()
    request = desk.follow(leader=3)

    assert ask(desk, 1, 1, 9, candidate=2, pre_vote=True).granted, "a leader that never answered may be gone"

    desk.answer(request)

    assert not ask(desk, 1, 1, 9, candidate=2, pre_vote=True).granted


def test_a_leader_promises_nothing() -> None:
    desk = Desk()
    desk.become_leader()

    assert not ask(desk, 1, 1, 9, pre_vote=True).granted


def test_a_candidate_of_an_old_epoch_is_told_the_new_one() -> None:
    desk = started(remembered=Remembered(LeaderEpoch(7), None, NodeId(3)))

    answer = ask(desk, 6, 0, 0)

    assert answer == do.AnswerVote(1, ErrorCode.FENCED_LEADER_EPOCH, LeaderEpoch(7), NodeId(3), False)


@pytest.mark.parametrize(
    ("candidate", "last_epoch", "end"), [(-1, 0, 0), (2, -1, 0), (2, 0, -1), (2, 5, 9)],
    ids=["no node", "no epoch", "no offset", "a record of the epoch to come"],
)  # fmt: skip
def test_a_request_that_makes_no_sense_changes_nothing(candidate: int, last_epoch: int, end: int) -> None:
    desk = started()

    desk.call(on.VoteRequested, ReplicaKey(NodeId(candidate)), LeaderEpoch(5), LeaderEpoch(last_epoch), Offset(end))

    assert desk.only(do.AnswerVote).error is ErrorCode.INVALID_REQUEST
    assert desk.quorum.epoch == 0


def test_a_vote_meant_for_the_disk_that_was_lost_is_not_given() -> None:
    desk = started()
    lost = ReplicaKey(NodeId(1), UUID(int=77))

    desk.call(on.VoteRequested, key(2), LeaderEpoch(1), LeaderEpoch(0), Offset(0), voter=lost)

    answer = desk.only(do.AnswerVote)
    assert (answer.error, answer.granted) == (ErrorCode.INVALID_VOTER_KEY, False)


def test_an_observer_votes_too_because_it_may_not_know_yet_that_it_is_a_voter() -> None:
    desk = started(node_id=9)

    assert ask(desk, 1, 0, 0).granted


def test_a_poll_does_not_raise_the_epoch_and_an_election_does() -> None:
    desk = started(log=log_of((2, 4)), remembered=Remembered(LeaderEpoch(2)))

    first, second = desk.become_prospective()

    assert (first.epoch, first.pre_vote, first.last_epoch, first.end_offset) == (2, True, 2, 4)

    desk.grant(first)

    assert desk.only(do.PersistState) == do.PersistState(LeaderEpoch(3), key(1), NO_NODE)
    assert [(request.epoch, request.pre_vote) for request in desk.all(do.SendVote)] == [(3, False)] * 2
    assert desk.grant(second) == [], "a late promise counts for nothing"


def test_a_candidate_whose_votes_were_refused_waits_and_polls_again() -> None:
    desk = started()
    for request in desk.become_candidate():
        desk.grant(request, granted=False)

    assert desk.quorum.role is RoleName.CANDIDATE
    assert desk.deadline_ms is not None

    desk.pass_time(SETTINGS.election_backoff_max_ms)

    assert (desk.quorum.role, desk.quorum.epoch) == (RoleName.PROSPECTIVE, 1)


def test_a_poll_that_is_refused_leads_back_to_the_leader() -> None:
    desk = started()
    desk.follow(leader=3)
    desk.pass_time(SETTINGS.fetch_timeout_ms)
    for request in desk.all(do.SendVote):
        desk.grant(request, granted=False)

    assert (desk.quorum.role, desk.quorum.leader, desk.quorum.epoch) == (RoleName.FOLLOWER, 3, 1)


def test_requests_for_votes_are_repeated_while_the_election_lasts() -> None:
    desk = started()
    first, second = desk.become_candidate()

    desk.step(on.RequestFailed(first.request_id))
    desk.pass_time(SETTINGS.retry_backoff_ms)

    again = desk.only(do.SendVote)
    assert again.to == first.to
    assert again.request_id not in (first.request_id, second.request_id)


def test_a_candidate_hears_of_a_leader_from_whoever_knows_it() -> None:
    desk = started()
    request = desk.become_candidate()[0]

    desk.step(
        on.VoteAnswered(
            request.request_id, request.to.node_id, ErrorCode.FENCED_LEADER_EPOCH, LeaderEpoch(9), NodeId(3)
        )
    )

    assert (desk.quorum.role, desk.quorum.leader, desk.quorum.epoch) == (RoleName.FOLLOWER, 3, 9)


def test_one_that_was_the_leader_before_a_restart_never_leads_the_same_epoch_again() -> None:
    desk = started(remembered=Remembered(LeaderEpoch(4), key(1), NodeId(1)), log=log_of((4, 2)))

    assert (desk.quorum.role, desk.quorum.leading_epoch, desk.quorum.leader) == (RoleName.RESIGNED, -1, NO_NODE)

    desk.pass_time(2 * SETTINGS.election_timeout_ms)

    assert (desk.quorum.role, desk.quorum.epoch) == (RoleName.UNATTACHED, 5)


def test_a_log_that_knows_a_newer_epoch_than_the_file_is_believed() -> None:
    desk = started(remembered=Remembered(LeaderEpoch(2), key(3)), log=log_of((6, 1)))

    assert desk.quorum.epoch == 6
    assert desk.only(do.PersistState) == do.PersistState(LeaderEpoch(6), None, NO_NODE)
