"""What `tidelog watch` makes of what it was told: lags, sentences about changes, a picture that fits its terminal."""

from __future__ import annotations

import io
from uuid import UUID

import pytest
from rich.console import Console

from tidelog.cli.watch_model import Snapshot, WatchedBroker, WatchedPartition, changes
from tidelog.cli.watch_picture import Picture, rates
from tidelog.client.quorum import Quorum, QuorumReplica
from tidelog.model.ids import LeaderEpoch, NodeId, Offset, PartitionIndex, TopicName, TopicPartition


def nodes(*numbers: int) -> tuple[NodeId, ...]:
    return tuple(map(NodeId, numbers))


def partition(
    leader: int = 1,
    *,
    index: int = 0,
    epoch: int = 0,
    isr: tuple[int, ...] = (1, 2, 3),
    mark: int | None = 100,
    ends: dict[int, int] | None = None,
) -> WatchedPartition:
    return WatchedPartition(
        TopicPartition(TopicName("orders"), PartitionIndex(index)),
        NodeId(leader),
        LeaderEpoch(epoch),
        nodes(1, 2, 3),
        nodes(*isr),
        None,
        None if mark is None else Offset(mark),
        {NodeId(node): Offset(end) for node, end in (ends or {1: 103, 2: 100, 3: 102}).items()},
    )


def snapshot(
    *partitions: WatchedPartition, at: float = 0.0, controller: int = 1, gone: tuple[int, ...] = ()
) -> Snapshot:
    replicas = tuple(QuorumReplica(NodeId(node), UUID(int=node), Offset(40 - node), 0, 0) for node in (1, 2, 3))
    return Snapshot(
        at,
        "a-cluster",
        NodeId(controller),
        tuple(WatchedBroker(NodeId(one), f"h:{one}", one not in gone, one not in gone) for one in (1, 2, 3)),
        partitions,
        Quorum(NodeId(1), LeaderEpoch(4), Offset(38), replicas, (), {}),
    )


def drawn(picture: Picture, width: int, height: int = 40) -> str:
    console = Console(width=width, height=height, file=io.StringIO(), record=True)
    console.print(picture)
    return console.export_text()


def test_a_replica_is_behind_by_what_the_leader_has_more() -> None:
    one = partition()

    assert [one.lag(node) for node in nodes(1, 2, 3)] == [0, 3, 1]
    assert one.end == 103
    assert partition(ends={1: 103, 2: 100}).lag(NodeId(3)) is None


def test_without_a_leader_the_longest_log_is_the_measure() -> None:
    one = partition(-1, mark=None, ends={2: 7, 3: 9})

    assert (one.end, one.lag(NodeId(2))) == (9, 2)


def test_what_changed_is_told_in_sentences() -> None:
    before = snapshot(partition(), partition(index=1))
    after = snapshot(partition(2, epoch=1, isr=(2, 3)), partition(index=2), controller=3, gone=(1,))

    assert list(changes(before, after)) == [
        "controller: 1 → 3",
        "broker 1 is gone",
        "orders-2 is there",
        "orders-0: leader 1 → 2, epoch 1",
        "orders-0: in sync 1,2,3 → 2,3",
        "orders-1 is gone",
    ]
    assert list(changes(after, after)) == []
    assert "broker 1 is back" in list(changes(after, before))


def test_many_changes_at_once_are_counted() -> None:
    before = snapshot(*(partition(index=index) for index in range(5)))
    after = snapshot(*(partition(2 + index % 2, index=index, isr=(2, 3)) for index in range(5)))

    assert list(changes(before, after)) == [
        "3 partitions: leader 1 → 2",
        "2 partitions: leader 1 → 3",
        "5 partitions: 1 left those in sync",
    ]
    assert list(changes(after, before))[-1] == "5 partitions: 1 joined those in sync"


def test_a_rate_is_what_the_high_watermark_gained_in_a_second() -> None:
    before, after = snapshot(partition(mark=100), at=10.0), snapshot(partition(mark=350), at=12.0)

    assert rates(before, after) == {before.partitions[0].place: 125.0}


@pytest.mark.parametrize("width", [60, 80, 100, 130, 200])
def test_the_picture_fits_the_width_of_the_terminal(width: int) -> None:
    text = drawn(Picture(snapshot(partition(), gone=(2,)), events=[(0.0, "broker 2 is gone")]), width)

    assert max(map(len, text.splitlines())) <= width
    assert "orders-0" in text
    assert "gone" in text


def test_the_picture_shows_leader_lags_and_high_watermark() -> None:
    text = drawn(Picture(snapshot(partition(isr=(1, 2)))), 130)
    row = next(line for line in text.splitlines() if "orders-0" in line)

    assert "100" in row
    assert "♛" in row
    assert "● ━" in row
    assert "○ ━" in row
    assert "102 −1" in row
    assert "leader 1  epoch 4  high watermark 38  voters 1 ✓ 2 −1 3 −2" in text


def test_a_small_terminal_gets_the_rows_that_fit() -> None:
    many = [partition(index=index) for index in range(50)]
    events = [(0.0, f"event {number}") for number in range(9)]
    text = drawn(Picture(snapshot(*many), events=events, fits_screen=True), 120, height=24)

    assert 22 <= len(text.splitlines()) <= 24
    assert "… and 42 more" in text
    assert "event 8" in text
    assert "event 4" not in text


def test_the_json_has_everything_that_the_picture_shows() -> None:
    told = snapshot(partition()).as_json()

    assert told["controller"] == 1
    assert told["quorum"]["voters"] == {"1": 39, "2": 38, "3": 37}
    assert told["partitions"][0] == {
        "topic": "orders",
        "partition": 0,
        "leader": 1,
        "leader_epoch": 0,
        "replicas": (1, 2, 3),
        "isr": (1, 2, 3),
        "eligible_leaders": None,
        "end_offset": 103,
        "high_watermark": 100,
        "end_offsets": {"1": 103, "2": 100, "3": 102},
    }
