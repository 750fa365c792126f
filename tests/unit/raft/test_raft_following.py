"""What a follower does with what it fetches, and what it refuses."""

from __future__ import annotations

from uuid import UUID

import pytest

from harness.raft.desk import SETTINGS, Desk, key, log_of, voter, voter_set
from harness.raft.storage import Entry
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_NODE, LeaderEpoch, NodeId, Offset
from tidelog.raft import effects as do
from tidelog.raft import events as on
from tidelog.raft.ports import EpochEnd, SnapshotId
from tidelog.raft.replicas import ReplicaKey
from tidelog.raft.roles import RoleName


def entries(*epochs: int) -> list[Entry]:
    return [Entry(LeaderEpoch(epoch), "data") for epoch in epochs]


def follower(*runs: tuple[int, int], epoch: int = 5, **named: object) -> tuple[Desk, do.SendFetch]:
    """A follower of node 2 with a synced log, and its first fetch."""
    desk = Desk(log=log_of(*runs), **named)  # type: ignore[arg-type]
    desk.start()
    if desk.all(do.SyncLog):
        desk.sync()
    return desk, desk.follow(leader=2, epoch=epoch)


@pytest.mark.req("D3", "D15")
def test_a_fetch_says_how_far_the_log_goes_and_what_is_known_to_be_committed() -> None:
    _, request = follower((1, 3), (2, 2))

    assert (request.to, request.epoch, request.offset, request.last_epoch, request.high_watermark) == (2, 5, 5, 2, 0)


@pytest.mark.req("D4", "D16")
def test_what_was_fetched_is_acknowledged_when_it_is_synced() -> None:
    desk, request = follower((1, 3))

    desk.answer(request, entries=entries(5, 5), high_watermark=Offset(9))

    assert desk.only(do.AppendFetched).end_offset == 5
    assert desk.only(do.CommittedUpTo).offset == 5, "as much as the leader says, and no more than there is"
    assert not desk.all(do.SendFetch)

    desk.sync()

    assert desk.only(do.SendFetch).offset == 5


def test_one_that_never_votes_acknowledges_without_syncing() -> None:
    desk, request = follower((1, 3), may_vote=False, node_id=9)

    desk.answer(request, entries=entries(5))

    assert not desk.all(do.SyncLog)
    assert desk.only(do.SendFetch).offset == 4
    assert desk.only(do.SendFetch).last_epoch == 5


@pytest.mark.req("D18")
def test_a_log_that_differs_is_cut_by_epoch_and_not_to_the_high_watermark() -> None:
    desk, request = follower((1, 3), (2, 4))

    desk.answer(request, diverging=EpochEnd(LeaderEpoch(2), Offset(5)))

    assert desk.quorum.high_watermark == 0
    assert desk.only(do.TruncateTo).offset == 5
    assert (desk.only(do.SendFetch).offset, desk.only(do.SendFetch).last_epoch) == (5, 2)


def test_a_whole_epoch_that_the_leader_never_had_is_cut() -> None:
    desk, request = follower((1, 3), (4, 4))

    desk.answer(request, diverging=EpochEnd(LeaderEpoch(2), Offset(6)))

    assert desk.only(do.TruncateTo).offset == 3
    assert desk.only(do.SendFetch).last_epoch == 1


def test_what_is_committed_is_never_cut_whoever_asks() -> None:
    desk, request = follower((1, 3))
    desk.answer(request, high_watermark=Offset(3))

    desk.answer(desk.only(do.SendFetch), diverging=EpochEnd(LeaderEpoch(1), Offset(2)))

    assert desk.only(do.Complain)
    assert not desk.all(do.TruncateTo)
    assert desk.log.end_offset == 3


@pytest.mark.parametrize("base_offset", [2, 4])
def test_batches_that_do_not_continue_the_log_are_refused(base_offset: int) -> None:
    desk, request = follower((1, 3))

    desk.answer(request, entries=entries(5, 5, 5), base_offset=Offset(base_offset))

    assert desk.only(do.Complain)
    assert not desk.all(do.AppendFetched)


@pytest.mark.parametrize("epoch", [1, 6])
def test_batches_of_an_epoch_that_cannot_be_are_refused(epoch: int) -> None:
    desk, request = follower((1, 3), (2, 1))

    desk.answer(request, entries=entries(epoch))

    assert desk.only(do.Complain)
    assert not desk.all(do.AppendFetched)


def test_only_the_answer_to_the_last_fetch_counts() -> None:
    desk, request = follower((1, 3))
    desk.step(on.RequestFailed(request.request_id))
    desk.pass_time(SETTINGS.retry_backoff_ms)
    again = desk.only(do.SendFetch)

    assert desk.answer(request, entries=entries(5)) == []

    desk.answer(again, entries=entries(5))

    assert desk.only(do.AppendFetched).end_offset == 4


def test_a_leader_whose_process_is_gone_is_not_waited_for() -> None:
    desk, request = follower((1, 3))
    desk.step(on.RequestFailed(request.request_id, refused=True))

    desk.pass_time(SETTINGS.election_timeout_ms // 4)

    assert desk.all(do.BecameProspective)


def test_a_leader_that_is_only_out_of_reach_is_waited_for() -> None:
    desk, request = follower((1, 3))
    desk.step(on.RequestFailed(request.request_id))

    desk.pass_time(SETTINGS.election_timeout_ms // 4)

    assert not desk.all(do.BecameProspective)


def test_what_another_one_serves_is_not_taken() -> None:
    desk, request = follower((1, 3))

    desk.answer(request, entries=entries(5), source=NodeId(3))

    assert not desk.all(do.AppendFetched)


def test_an_observer_that_gets_no_answer_asks_another_one_and_the_leader_in_turn() -> None:
    desk, _ = follower((1, 3), node_id=9)
    asked = []

    for _ in range(4):
        desk.pass_time(SETTINGS.request_timeout_ms)
        desk.pass_time(SETTINGS.retry_backoff_ms)
        asked.append(desk.only(do.SendFetch).to)

    assert asked == [1, 2, 1, 2]


@pytest.mark.req("F8")
def test_a_voter_that_gets_no_answer_looks_for_another_leader() -> None:
    desk, _ = follower((1, 3))

    desk.pass_time(SETTINGS.fetch_timeout_ms)

    assert desk.quorum.role is RoleName.PROSPECTIVE


def test_one_that_waits_for_its_own_disk_does_not_blame_the_leader() -> None:
    desk, request = follower((1, 3))
    desk.answer(request, entries=entries(5))
    waiting = desk.only(do.SyncLog)

    desk.pass_time(3 * SETTINGS.fetch_timeout_ms)

    assert desk.quorum.role is RoleName.FOLLOWER

    desk.step(on.SyncDone(waiting.sync_id))

    assert desk.only(do.SendFetch).offset == 4


def test_voters_count_from_the_moment_they_are_fetched_and_no_more_when_they_are_cut_off() -> None:
    desk, request = follower((1, 3))
    new = voter_set(1, 2, 3, 4)

    desk.answer(request, entries=entries(5, 5), voter_sets=((Offset(4), new),))

    assert desk.quorum.voters == new

    desk.sync()
    desk.answer(desk.only(do.SendFetch), diverging=EpochEnd(LeaderEpoch(5), Offset(4)))

    assert desk.quorum.voters == voter_set(1, 2, 3)


# --- snapshots --------------------------------------------------------------------------------------------------------

SNAPSHOT = SnapshotId(Offset(50), LeaderEpoch(4))


def piece(request: do.SendFetchSnapshot, **fields: object) -> on.SnapshotAnswered:
    values: dict[str, object] = {
        "error": ErrorCode.NONE,
        "epoch": request.epoch,
        "leader": request.to,
        "snapshot": request.snapshot,
        "size_bytes": 100,
        "position": request.position,
        "piece_bytes": 60,
        "piece": b"piece",
    }
    return on.SnapshotAnswered(request.request_id, request.to, **(values | fields))  # type: ignore[arg-type]


def test_a_snapshot_is_fetched_piece_by_piece_and_then_installed() -> None:
    desk, request = follower((1, 3))
    desk.answer(request, snapshot=SNAPSHOT)
    desk.step(piece(desk.only(do.SendFetchSnapshot)))

    assert desk.only(do.StoreSnapshot).position == 0
    assert desk.only(do.SendFetchSnapshot).position == 60

    desk.step(piece(desk.only(do.SendFetchSnapshot)))

    assert desk.only(do.InstallSnapshot).snapshot == SNAPSHOT
    assert not desk.all(do.SendFetch)

    desk.log.install(SNAPSHOT, voter_set(1, 4))
    desk.step(on.SnapshotInstalled(SNAPSHOT, voter_set(1, 4)))

    assert desk.only(do.CommittedUpTo).offset == 50
    assert desk.quorum.voters == voter_set(1, 4)
    assert (desk.only(do.SendFetch).offset, desk.only(do.SendFetch).last_epoch) == (50, 4)


def test_while_a_snapshot_is_installed_the_node_neither_fetches_nor_stands() -> None:
    desk, request = follower((1, 3))
    desk.answer(request, snapshot=SNAPSHOT)
    desk.step(piece(desk.only(do.SendFetchSnapshot), piece_bytes=100))

    desk.pass_time(10 * SETTINGS.fetch_timeout_ms)

    assert desk.quorum.role is RoleName.FOLLOWER
    assert not desk.all(do.SendFetch)

    desk.step(on.SnapshotRejected(SNAPSHOT))

    assert desk.only(do.SendFetch).offset == 3


def test_a_snapshot_that_the_leader_does_not_have_any_more_is_forgotten() -> None:
    desk, request = follower((1, 3))
    desk.answer(request, snapshot=SNAPSHOT)

    desk.step(piece(desk.only(do.SendFetchSnapshot), error=ErrorCode.SNAPSHOT_NOT_FOUND))
    desk.pass_time(SETTINGS.retry_backoff_ms)

    assert desk.only(do.SendFetch).offset == 3


def test_a_snapshot_behind_what_is_committed_is_refused() -> None:
    desk, request = follower((1, 3))
    desk.answer(request, high_watermark=Offset(3))

    desk.answer(desk.only(do.SendFetch), snapshot=SnapshotId(Offset(2), LeaderEpoch(1)))

    assert desk.only(do.Complain)
    assert not desk.all(do.SendFetchSnapshot)


# --- what leaders say -------------------------------------------------------------------------------------------------


def test_an_old_leader_is_told_the_new_epoch() -> None:
    desk, _ = follower(epoch=5)

    desk.call(on.BeginEpochRequested, NodeId(3), LeaderEpoch(4))

    assert desk.only(do.AnswerBeginEpoch) == do.AnswerBeginEpoch(
        desk.call_id, ErrorCode.FENCED_LEADER_EPOCH, LeaderEpoch(5), NodeId(2)
    )


@pytest.mark.req("F6")
def test_a_second_leader_of_the_same_epoch_is_not_believed() -> None:
    desk, _ = follower(epoch=5)

    desk.call(on.BeginEpochRequested, NodeId(3), LeaderEpoch(5))

    assert desk.only(do.AnswerBeginEpoch).error is ErrorCode.INVALID_REQUEST
    assert desk.quorum.leader == 2


def test_a_leader_that_means_another_disk_is_followed_and_told_so() -> None:
    desk = Desk()
    desk.start()

    desk.call(on.BeginEpochRequested, NodeId(2), LeaderEpoch(5), ReplicaKey(NodeId(1), UUID(int=88)))

    assert desk.only(do.AnswerBeginEpoch).error is ErrorCode.INVALID_VOTER_KEY
    assert desk.quorum.leader == 2


@pytest.mark.parametrize(
    ("successors", "delay_ms"),
    [((1, 3), 0), ((3, 1), SETTINGS.election_backoff_max_ms), ((3, 1, 4), SETTINGS.election_backoff_max_ms // 2),
     ((), SETTINGS.election_backoff_max_ms)],
)  # fmt: skip
def test_when_a_leader_resigns_its_successors_stand_one_after_the_other(
    successors: tuple[int, ...], delay_ms: int
) -> None:
    desk, request = follower(epoch=5)
    desk.answer(request)

    desk.call(on.EndEpochRequested, NodeId(2), LeaderEpoch(5), tuple(key(node_id) for node_id in successors))

    if delay_ms:
        assert desk.quorum.role is RoleName.FOLLOWER
        desk.pass_time(delay_ms - 1)
        assert desk.quorum.role is RoleName.FOLLOWER
        desk.pass_time(1)
    assert desk.quorum.role is RoleName.PROSPECTIVE


def test_an_observer_never_stands() -> None:
    desk, _ = follower(epoch=5, node_id=9)

    for _ in range(20):
        desk.pass_time(SETTINGS.fetch_timeout_ms)

        assert desk.quorum.role is RoleName.FOLLOWER


def test_a_voter_whose_record_is_wrong_tells_the_leader_from_time_to_time() -> None:
    desk, request = follower((1, 3), port=9999)
    desk.pass_time(SETTINGS.fetch_timeout_ms // 2)
    desk.answer(request)

    assert not desk.all(do.SendUpdateVoter)

    desk.pass_time(SETTINGS.fetch_timeout_ms // 2)

    update = desk.only(do.SendUpdateVoter)
    assert (update.to, update.voter) == (2, voter(1, port=9999))


def test_what_is_known_of_the_leader_is_nothing_once_it_has_resigned() -> None:
    desk = Desk()
    desk.become_leader()

    desk.step(on.Resign())

    assert (desk.quorum.role, desk.quorum.leader, desk.quorum.leading_epoch) == (RoleName.RESIGNED, NO_NODE, -1)
