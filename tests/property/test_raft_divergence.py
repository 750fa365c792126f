"""Two logs that differ are brought together by epochs alone, whatever their histories were."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harness.raft.storage import Entry, MemoryLog
from tidelog.model.ids import LeaderEpoch, Offset
from tidelog.raft.divergence import cut_at, differs
from tidelog.raft.ports import EpochEnd, SnapshotId


@st.composite
def two_logs(draw: st.DrawFn) -> tuple[MemoryLog, MemoryLog]:
    """A common beginning, and then epochs of which each belongs to one of the two, as the leaders of a quorum write."""
    leader, follower = MemoryLog(), MemoryLog()
    length = st.integers(1, 4)
    epoch = 0
    for _ in range(draw(st.integers(0, 3))):
        epoch += draw(st.integers(1, 2))
        entries = [Entry(LeaderEpoch(epoch), (epoch, number)) for number in range(draw(length))]
        leader.append(entries)
        follower.append(entries)
    # The epoch at which they part may have reached one further than the other.
    tail = [Entry(LeaderEpoch(epoch), (epoch, "tail", number)) for number in range(draw(st.integers(0, 3)))]
    draw(st.sampled_from([leader, follower])).append(tail if epoch else [])
    for _ in range(draw(st.integers(0, 4))):
        epoch += 1
        log = draw(st.sampled_from([leader, follower]))
        log.append([Entry(LeaderEpoch(epoch), (epoch, number)) for number in range(draw(length))])
    return leader, follower


def common_length(one: MemoryLog, other: MemoryLog) -> int:
    length = 0
    while length < min(one.end_offset, other.end_offset) and one.entries[length] == other.entries[length]:
        length += 1
    return length


@given(two_logs())
def test_a_follower_cuts_exactly_what_the_leader_does_not_have(logs: tuple[MemoryLog, MemoryLog]) -> None:
    leader, follower = logs
    shared = common_length(leader, follower)

    while (difference := differs(leader, follower.end_offset, follower.last_epoch)) is not None:
        assert isinstance(difference, EpochEnd)
        end = cut_at(follower, difference)
        assert shared <= end < follower.end_offset, "each round cuts something, and nothing that both have"
        follower.truncate(end)

    assert follower.end_offset == shared


@given(two_logs(), st.data())
def test_with_a_shorter_log_a_leader_sends_a_snapshot_or_the_truth(
    logs: tuple[MemoryLog, MemoryLog], data: st.DataObject
) -> None:
    leader, follower = logs
    shared = common_length(leader, follower)
    if leader.end_offset == 0:
        return
    leader.take_snapshot(Offset(data.draw(st.integers(1, leader.end_offset))), None)
    leader.forget_before_snapshot()

    while isinstance(difference := differs(leader, follower.end_offset, follower.last_epoch), EpochEnd):
        follower.truncate(cut_at(follower, difference))

    if difference is None:
        assert leader.start_offset <= follower.end_offset == shared
    else:
        assert difference == leader.snapshot == SnapshotId(leader.start_offset, leader.start_epoch)
        assert shared <= leader.start_offset
