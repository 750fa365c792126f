"""What a leader serves, refuses, commits, and when it gives up."""

from __future__ import annotations

import pytest

from harness.raft.desk import SETTINGS, Desk, key, log_of
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, NodeId, Offset
from tidelog.raft import effects as do
from tidelog.raft import events as on
from tidelog.raft.ports import EpochEnd, SnapshotId
from tidelog.raft.roles import RoleName


def leader(*runs: tuple[int, int], **named: object) -> Desk:
    """Node 1, elected in the epoch after those of its log; its first record is synced, and nobody has fetched it."""
    desk = Desk(log=log_of(*runs), **named)  # type: ignore[arg-type]
    desk.become_leader()
    return desk


def test_a_new_leader_writes_who_elected_it_before_anything_else() -> None:
    desk = Desk(dynamic=False)
    desk.start()
    request = desk.become_candidate()[0]
    desk.grant(request)

    granting = (key(1), request.to)
    assert desk.only(do.AppendToLog).records == (do.LeaderChange(NodeId(1), desk.quorum.voters.keys, granting),)
    assert desk.only(do.BecameLeader) == do.BecameLeader(LeaderEpoch(1), Offset(0))
    assert [effect.to for effect in desk.all(do.SendBeginEpoch)] == [key(2), key(3)]


def test_the_first_leader_of_a_cluster_writes_down_the_voters() -> None:
    desk = Desk()
    desk.start()
    desk.grant(desk.become_candidate()[0])

    _, level, voters = desk.only(do.AppendToLog).records
    assert (level, voters) == (do.KRaftLevel(1), do.Voters(desk.quorum.voters))


def test_a_new_leader_corrects_what_the_voters_say_about_itself() -> None:
    desk = Desk(voters=(1,), port=9999)
    desk.start()

    voters = desk.only(do.AppendToLog).records[-1]
    assert isinstance(voters, do.Voters)
    assert voters.voter_set.voters[0].endpoints[0].port == 9999


@pytest.mark.req("D12", "D17")
def test_what_a_majority_has_is_committed() -> None:
    desk = leader((1, 3), dynamic=False)
    end = desk.log.end_offset

    desk.fetch(2, end, 2)

    assert desk.only(do.CommittedUpTo).offset == end
    assert desk.only(do.LeadershipEstablished) == do.LeadershipEstablished(LeaderEpoch(2), Offset(3))


def test_an_earlier_epochs_records_are_committed_only_with_one_of_its_own() -> None:
    desk = leader((1, 3), dynamic=False)

    desk.fetch(2, 3, 1)

    assert not desk.all(do.CommittedUpTo)
    assert desk.only(do.AnswerFetch).read_from == 3


def test_an_observer_does_not_count() -> None:
    desk = leader((1, 3), dynamic=False)

    desk.fetch(9, desk.log.end_offset, 2)

    assert not desk.all(do.CommittedUpTo)


def test_a_leader_counts_itself_when_it_has_synced() -> None:
    desk = Desk(voters=(1, 2), dynamic=False)
    desk.become_leader()
    desk.fetch(2, 1, 1)
    desk.append(2)
    sync = desk.only(do.SyncLog)
    desk.fetch(2, 3, 1)

    assert not desk.all(do.CommittedUpTo)

    desk.step(on.SyncDone(sync.sync_id))

    assert desk.only(do.CommittedUpTo).offset == 3


def test_one_sync_covers_all_that_was_appended_before_it() -> None:
    desk = Desk(voters=(1,))
    desk.become_leader()
    desk.append()
    first = desk.only(do.SyncLog)
    desk.append()
    assert not desk.all(do.SyncLog)
    desk.append()

    desk.step(on.SyncDone(first.sync_id))

    assert desk.only(do.CommittedUpTo).offset == 4
    desk.step(on.SyncDone(desk.only(do.SyncLog).sync_id))
    assert desk.only(do.CommittedUpTo).offset == 6


def test_the_high_watermark_does_not_go_back_with_a_late_fetch() -> None:
    desk = leader((1, 3), dynamic=False)
    desk.fetch(2, 4, 2)

    desk.fetch(2, 2, 1)

    assert not desk.all(do.CommittedUpTo)
    assert desk.quorum.high_watermark == 4


# --- serving ----------------------------------------------------------------------------------------------------------


def test_a_log_that_differs_is_told_where() -> None:
    desk = leader((1, 3), (3, 2), dynamic=False)

    desk.fetch(2, 6, 2)

    assert desk.only(do.AnswerFetch).diverging == EpochEnd(LeaderEpoch(1), Offset(3))
    assert desk.only(do.AnswerFetch).read_from is None


def test_what_is_not_in_the_log_any_more_is_in_the_snapshot() -> None:
    desk = Desk(dynamic=False)
    desk.become_established_leader()
    desk.append(9)
    desk.sync()
    desk.fetch(2, 10, 1)
    desk.log.take_snapshot(Offset(8), None)
    desk.log.forget_before_snapshot()

    desk.fetch(3, 4, 1)

    assert desk.only(do.AnswerFetch).snapshot == SnapshotId(Offset(8), LeaderEpoch(1))


@pytest.mark.parametrize(("epoch", "error"), [(1, ErrorCode.FENCED_LEADER_EPOCH), (3, ErrorCode.UNKNOWN_LEADER_EPOCH)])
def test_only_those_in_the_same_epoch_are_served(epoch: int, error: ErrorCode) -> None:
    desk = leader((1, 3))

    desk.fetch(2, 3, 1, epoch=epoch)

    answer = desk.only(do.AnswerFetch)
    assert (answer.error, answer.epoch, answer.leader, answer.read_from) == (error, 2, 1, None)


def test_a_leader_that_hears_of_a_newer_epoch_leads_no_more() -> None:
    desk = leader((1, 3))

    desk.fetch(2, 3, 1, epoch=7)

    assert (desk.quorum.role, desk.quorum.epoch) == (RoleName.UNATTACHED, 7)


@pytest.mark.parametrize(("node_id", "offset", "last_epoch"), [(2, -1, 1), (2, 3, -1), (2, 3, 3), (1, 3, 1)])
def test_a_fetch_that_makes_no_sense_is_refused(node_id: int, offset: int, last_epoch: int) -> None:
    desk = leader((1, 3))

    desk.fetch(node_id, offset, last_epoch)

    assert desk.only(do.AnswerFetch).error is ErrorCode.INVALID_REQUEST


@pytest.mark.req("D3")
def test_a_fetch_waits_for_news() -> None:
    desk = Desk(voters=(1, 2), dynamic=False)
    desk.become_established_leader()
    waiting = desk.call_id
    desk.append()

    answer = desk.only(do.AnswerFetch)
    assert (answer.call_id, answer.read_from) == (waiting, 1)


def test_a_fetch_waits_no_longer_than_it_wants_to() -> None:
    desk = Desk(voters=(1, 2), dynamic=False)
    desk.become_established_leader()
    desk.fetch(2, 1, 1, wait_max_ms=100)

    desk.pass_time(99)
    assert not desk.all(do.AnswerFetch)
    desk.pass_time(1)

    answer = desk.only(do.AnswerFetch)
    assert (answer.call_id, answer.read_from, answer.high_watermark) == (desk.call_id, None, 1)


def test_a_follower_that_does_not_know_what_is_committed_is_told_at_once() -> None:
    desk = Desk(voters=(1, 2), dynamic=False)
    desk.become_established_leader()

    desk.fetch(2, 1, 1, high_watermark=0)

    assert desk.only(do.AnswerFetch).high_watermark == 1


def test_a_replica_that_asks_again_has_given_up_its_first_question() -> None:
    desk = Desk(voters=(1, 2), dynamic=False)
    desk.become_established_leader()
    first = desk.call_id

    desk.fetch(2, 1, 1)

    assert desk.only(do.AnswerFetch).call_id == first


def test_whoever_waits_is_told_when_the_leader_is_none_any_more() -> None:
    desk = Desk(voters=(1, 2), dynamic=False)
    desk.become_established_leader()

    desk.call(on.BeginEpochRequested, NodeId(2), LeaderEpoch(9))

    answer = desk.only(do.AnswerFetch)
    assert (answer.error, answer.epoch, answer.leader) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 9, 2)


@pytest.mark.parametrize("epoch", [1, 2])
def test_a_snapshot_is_served_by_the_leader_alone(epoch: int) -> None:
    desk = leader((1, 3))
    snapshot = SnapshotId(Offset(2), LeaderEpoch(1))

    desk.call(on.SnapshotRequested, key(2), LeaderEpoch(epoch), snapshot, 30)

    answer = desk.only(do.AnswerFetchSnapshot)
    assert answer.error is (ErrorCode.FENCED_LEADER_EPOCH if epoch == 1 else ErrorCode.NONE)
    assert (answer.snapshot, answer.position) == (snapshot, 30)


# --- keeping the epoch going ------------------------------------------------------------------------------------------


@pytest.mark.req("F6")
def test_a_leader_that_no_majority_fetches_from_resigns() -> None:
    desk = leader((1, 3))

    desk.pass_time(SETTINGS.check_quorum_ms - 1)
    assert desk.quorum.role is RoleName.LEADER
    desk.pass_time(1)

    assert desk.quorum.role is RoleName.RESIGNED
    assert {effect.to for effect in desk.all(do.SendEndEpoch)} == {key(2), key(3)}


def test_one_follower_of_two_keeps_a_leader_in_office() -> None:
    desk = leader((1, 3))

    for _ in range(10):
        desk.pass_time(SETTINGS.check_quorum_ms // 2)
        desk.fetch(3, 3, 1)

    assert desk.quorum.role is RoleName.LEADER


def test_a_follower_that_fetches_a_snapshot_keeps_a_leader_in_office() -> None:
    desk = leader((1, 3))

    for _ in range(10):
        desk.pass_time(SETTINGS.check_quorum_ms // 2)
        desk.call(on.SnapshotRequested, key(3), LeaderEpoch(2), SnapshotId(Offset(2), LeaderEpoch(1)))

    assert desk.quorum.role is RoleName.LEADER


def test_a_leader_makes_itself_known_to_voters_that_do_not_fetch() -> None:
    desk = Desk(log=log_of((1, 3)))
    desk.start()
    desk.sync()
    desk.grant(desk.become_candidate()[0])
    for request in desk.all(do.SendBeginEpoch):
        desk.step(on.RequestFailed(request.request_id))
    desk.pass_time(SETTINGS.begin_epoch_ms - 1)
    desk.fetch(2, 3, 1)

    desk.pass_time(1)

    assert desk.only(do.SendBeginEpoch).to == key(3)


def test_who_decides_alone_needs_no_timer() -> None:
    desk = Desk(voters=(1,))
    desk.become_leader()

    assert desk.deadline_ms is None
    desk.pass_time(100 * SETTINGS.check_quorum_ms)
    assert desk.quorum.role is RoleName.LEADER


@pytest.mark.req("F8")
def test_a_leader_that_stops_names_those_with_the_longest_logs_first() -> None:
    desk = leader((1, 3))
    desk.fetch(2, 2, 1)
    desk.fetch(3, 3, 1)

    desk.step(on.Resign())

    assert desk.all(do.SendEndEpoch)[0].successors == (key(3), key(2))


def test_one_that_stops_stands_no_more() -> None:
    desk = leader((1, 3))
    desk.step(on.Resign())

    for _ in range(10):
        desk.pass_time(10 * SETTINGS.election_timeout_ms)

    assert desk.quorum.role is RoleName.RESIGNED


def test_voters_that_know_of_the_resignation_are_not_told_again() -> None:
    desk = leader((1, 3))
    desk.step(on.Resign())
    first, second = desk.all(do.SendEndEpoch)
    desk.step(on.EndEpochAnswered(first.request_id, first.to.node_id, ErrorCode.NONE, LeaderEpoch(2)))

    desk.step(on.RequestFailed(second.request_id))
    desk.pass_time(SETTINGS.retry_backoff_ms)

    assert desk.only(do.SendEndEpoch).to == second.to


def test_the_leader_describes_how_far_everybody_is() -> None:
    desk = leader((1, 3))
    desk.now_ms = 40
    desk.fetch(2, desk.log.end_offset, 2)
    desk.fetch(9, 3, 1)

    description = desk.quorum.describe()

    assert (description.leader, description.epoch, description.high_watermark) == (1, 2, desk.log.end_offset)
    assert [replica.key for replica in description.voters] == [key(1), key(2), key(3)]
    assert [(replica.end_offset, replica.caught_up_ms >= 0) for replica in description.voters[1:]] == [
        (desk.log.end_offset, True),
        (-1, False),
    ]
    assert [(replica.key, replica.end_offset) for replica in description.observers] == [(key(9), 3)]
