from __future__ import annotations

from uuid import UUID

import pytest

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, NodeId, Offset, PartitionIndex
from tidelog.replica.in_sync import InSync, IsrProposal

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)
ALL = (ONE, TWO, THREE)
LAG_MS = 30_000
TOPIC = UUID(int=7)
BROKER_EPOCHS = {ONE: 101, TWO: 102, THREE: 103}


def led(isr: tuple[NodeId, ...] = ALL, *, epoch: int = 5, end: int = 100, now_ms: int = 0) -> InSync:
    """Broker 1 leads a partition of three from offset `end` on."""
    in_sync = InSync(ONE, LAG_MS, {})
    in_sync.lead(LeaderEpoch(epoch), 10, ALL, isr, Offset(end), now_ms)
    return in_sync


def fetch(in_sync: InSync, node: NodeId, offset: int, end: int, now_ms: int, broker_epoch: int | None = None) -> bool:
    epoch = BROKER_EPOCHS[node] if broker_epoch is None else broker_epoch
    return in_sync.fetched(node, epoch, Offset(offset), Offset(0), Offset(end), now_ms)


def propose(in_sync: InSync, *, high_watermark: int, end: int, now_ms: int) -> IsrProposal | None:
    return in_sync.propose(
        TOPIC, PartitionIndex(0), Offset(high_watermark), Offset(end), now_ms, 101, BROKER_EPOCHS.get
    )


@pytest.mark.req("D12")
def test_the_high_watermark_is_the_lowest_end_of_the_isr() -> None:
    in_sync = led()
    fetch(in_sync, TWO, 120, 150, 1)
    fetch(in_sync, THREE, 130, 150, 1)
    assert in_sync.lowest_end(Offset(150)) == 120


def test_who_is_not_in_the_isr_holds_nothing_back_unless_it_is_about_to_join() -> None:
    in_sync = led((ONE, TWO))
    fetch(in_sync, TWO, 150, 150, 1)
    fetch(in_sync, THREE, 20, 150, 1)
    in_sync.wait_for(THREE, Offset(150), 1, BROKER_EPOCHS.get)
    assert in_sync.lowest_end(Offset(150)) == 150
    fetch(in_sync, THREE, 150, 150, 2)
    in_sync.wait_for(THREE, Offset(150), 2, BROKER_EPOCHS.get)
    assert in_sync.lowest_end(Offset(160)) == 150


@pytest.mark.req("D8")
@pytest.mark.req("D10")
def test_a_follower_leaves_the_isr_when_it_has_not_caught_up_for_too_long() -> None:
    in_sync = led(now_ms=0)
    fetch(in_sync, TWO, 150, 150, 1000)
    fetch(in_sync, THREE, 120, 150, 1000)
    assert propose(in_sync, high_watermark=120, end=150, now_ms=LAG_MS) is None
    proposal = propose(in_sync, high_watermark=120, end=150, now_ms=LAG_MS + 1)
    assert proposal is not None
    assert proposal.isr == ((ONE, 101), (TWO, 102))


def test_a_follower_that_has_everything_stays_although_nobody_hears_of_it() -> None:
    in_sync = led(now_ms=0)
    fetch(in_sync, TWO, 150, 150, 1)
    fetch(in_sync, THREE, 150, 150, 1)
    assert propose(in_sync, high_watermark=150, end=150, now_ms=10 * LAG_MS) is None


def test_a_write_after_a_long_silence_gives_followers_their_time_to_fetch_it() -> None:
    in_sync = led(now_ms=0)
    fetch(in_sync, TWO, 150, 150, 1)
    fetch(in_sync, THREE, 150, 150, 1)
    hour_ms = 3_600_000
    in_sync.heard_ms.update({TWO: hour_ms - 500, THREE: hour_ms - 40_000})
    in_sync.grew(Offset(150))
    proposal = propose(in_sync, high_watermark=150, end=151, now_ms=hour_ms)
    assert proposal is not None
    assert proposal.members == (ONE, TWO), "three was not even heard of any more"


def test_under_constant_load_a_follower_is_in_sync_when_it_has_what_there_was_at_its_last_fetch() -> None:
    in_sync = led(now_ms=0)
    fetch(in_sync, THREE, 150, 150, 0)
    for turn in range(1, 100):
        fetch(in_sync, TWO, 100 + turn * 50, 150 + turn * 50, turn * 1000)
        fetch(in_sync, THREE, 150 + turn * 50, 150 + turn * 50, turn * 1000)
    assert propose(in_sync, high_watermark=5000, end=5100, now_ms=100_000) is None


@pytest.mark.req("D20")
def test_a_follower_joins_at_the_end_of_the_isr_when_it_has_the_high_watermark() -> None:
    in_sync = led((ONE, THREE))
    fetch(in_sync, THREE, 150, 150, 1)
    fetch(in_sync, TWO, 139, 150, 1)
    assert propose(in_sync, high_watermark=140, end=150, now_ms=1) is None
    fetch(in_sync, TWO, 150, 160, 2)
    proposal = propose(in_sync, high_watermark=140, end=160, now_ms=2)
    assert proposal is not None
    assert proposal.members == (ONE, THREE, TWO)


def test_a_silent_follower_that_left_does_not_join_for_having_what_is_committed() -> None:
    in_sync = led((ONE, TWO), now_ms=0)
    fetch(in_sync, TWO, 120, 150, 1)
    late_ms = LAG_MS + 10
    leaving = propose(in_sync, high_watermark=120, end=150, now_ms=late_ms)
    assert leaving is not None
    assert leaving.members == (ONE,)
    in_sync.accepted(leaving, 11, leaving.members, late_ms)
    assert propose(in_sync, high_watermark=120, end=150, now_ms=late_ms) is None


def test_a_follower_that_has_the_high_watermark_but_not_the_start_of_the_epoch_does_not_join() -> None:
    in_sync = led((ONE, THREE), end=100)
    fetch(in_sync, THREE, 100, 100, 1)
    fetch(in_sync, TWO, 90, 100, 1)
    assert propose(in_sync, high_watermark=80, end=100, now_ms=1) is None


def test_a_fenced_broker_or_an_earlier_incarnation_does_not_join() -> None:
    in_sync = led((ONE, TWO))
    fetch(in_sync, TWO, 150, 150, 1)
    fetch(in_sync, THREE, 150, 150, 1, broker_epoch=77)
    assert propose(in_sync, high_watermark=150, end=150, now_ms=1) is None
    fetch(in_sync, THREE, 150, 150, 1)
    assert in_sync.propose(TOPIC, PartitionIndex(0), Offset(150), Offset(150), 1, 101, lambda _: None) is None


def test_a_late_fetch_of_an_earlier_incarnation_says_nothing() -> None:
    in_sync = led()
    assert fetch(in_sync, TWO, 110, 150, 1, broker_epoch=300)
    assert not fetch(in_sync, TWO, 150, 150, 2, broker_epoch=200)
    assert in_sync.followers[TWO].end_offset == 110


def test_until_the_controller_answers_everyone_counts_who_may_be_in_the_isr() -> None:
    in_sync = led((ONE, TWO))
    fetch(in_sync, TWO, 150, 150, 1)
    fetch(in_sync, THREE, 150, 150, 1)
    joining = propose(in_sync, high_watermark=150, end=150, now_ms=1)
    assert joining is not None
    assert in_sync.isr == (ONE, TWO), "not yet"
    fetch(in_sync, TWO, 160, 160, 2)
    assert in_sync.lowest_end(Offset(160)) == 150
    assert propose(in_sync, high_watermark=150, end=160, now_ms=2) is None, "one change at a time"
    in_sync.accepted(joining, 11, ALL, 2)
    assert in_sync.isr == ALL


def test_who_is_to_leave_counts_until_it_has_left() -> None:
    in_sync = led()
    fetch(in_sync, TWO, 150, 150, 1)
    late_ms = LAG_MS + 1
    leaving = propose(in_sync, high_watermark=100, end=150, now_ms=late_ms)
    assert leaving is not None
    assert in_sync.lowest_end(Offset(150)) == -1
    in_sync.accepted(leaving, 11, leaving.members, late_ms)
    assert in_sync.lowest_end(Offset(150)) == 150


@pytest.mark.parametrize(
    ("code", "again", "forgotten"),
    [
        (ErrorCode.INELIGIBLE_REPLICA, False, True),
        (ErrorCode.INVALID_UPDATE_VERSION, False, False),
        (ErrorCode.FENCED_LEADER_EPOCH, False, False),
        (ErrorCode.NOT_CONTROLLER, True, False),
        (ErrorCode.REQUEST_TIMED_OUT, True, False),
    ],
)
def test_a_refused_proposal_counts_unless_it_was_certainly_not_done(
    code: ErrorCode, again: bool, forgotten: bool
) -> None:
    in_sync = led((ONE, TWO))
    fetch(in_sync, TWO, 150, 150, 1)
    fetch(in_sync, THREE, 150, 150, 1)
    proposal = propose(in_sync, high_watermark=150, end=150, now_ms=1)
    assert proposal is not None
    assert in_sync.refused(proposal, code) is again
    assert (in_sync.pending is None) is forgotten
    assert (in_sync.maximal_isr == (ONE, TWO)) is forgotten


def test_newer_metadata_ends_a_proposal_and_older_metadata_changes_nothing() -> None:
    in_sync = led((ONE, TWO))
    fetch(in_sync, TWO, 150, 150, 1)
    fetch(in_sync, THREE, 150, 150, 1)
    proposal = propose(in_sync, high_watermark=150, end=150, now_ms=1)
    assert proposal is not None
    in_sync.lead(LeaderEpoch(5), 10, ALL, (ONE, TWO), Offset(150), 2)
    assert in_sync.pending is proposal
    in_sync.lead(LeaderEpoch(5), 11, ALL, (ONE,), Offset(150), 2)
    assert in_sync.pending is None
    assert in_sync.isr == (ONE,)
    in_sync.accepted(proposal, 11, ALL, 3)
    assert in_sync.isr == (ONE,), "an answer to what is over"


def test_in_a_new_epoch_nothing_is_known_of_the_followers() -> None:
    in_sync = led()
    fetch(in_sync, TWO, 150, 150, 1)
    fetch(in_sync, THREE, 150, 150, 1)
    in_sync.lead(LeaderEpoch(6), 12, ALL, ALL, Offset(150), 2)
    assert in_sync.lowest_end(Offset(150)) == -1
    assert in_sync.epoch_start == 150
