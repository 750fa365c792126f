"""How offsets become tasks, and how far a trigger may go."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidelog.model.ids import Offset, PartitionIndex, TopicName, TopicPartition
from tidelog.spark.planning import Range, limited, ranges, waiting_offsets
from tidelog.spark.positions import Positions, positions_of, tree_of


def _at(partition: int) -> TopicPartition:
    return TopicPartition(TopicName("t"), PartitionIndex(partition))


def _positions(*offsets: int) -> Positions:
    return {_at(partition): Offset(offset) for partition, offset in enumerate(offsets)}


def test_a_partition_without_anything_new_is_no_task() -> None:
    assert ranges(_positions(3, 5), _positions(3, 9)) == [Range(_at(1), Offset(5), Offset(9))]


def test_ranges_are_split_by_their_share_until_there_are_enough() -> None:
    found = ranges(_positions(0, 0), _positions(300, 100), partitions_min=4)

    assert [(one.partition.partition, one.start, one.end) for one in found] == [
        (0, 0, 100),
        (0, 100, 200),
        (0, 200, 300),
        (1, 0, 100),
    ]


def test_no_range_is_longer_than_allowed() -> None:
    found = ranges(_positions(0), _positions(10), records_max=4)

    assert [one.offsets for one in found] == [3, 3, 4]


def test_what_a_trigger_may_read_is_shared_by_what_waits() -> None:
    assert limited(_positions(0, 0), _positions(300, 100), 40) == _positions(30, 10)


def test_one_offset_moves_even_if_all_shares_round_to_nothing() -> None:
    assert waiting_offsets(_positions(0, 0, 0), limited(_positions(0, 0, 0), _positions(5, 5, 5), 1)) == 1


OFFSETS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=6)


@given(OFFSETS, st.integers(1, 120))
def test_a_limit_is_kept_and_never_goes_back(bounds: list[tuple[int, int]], most: int) -> None:
    start = _positions(*(first for first, _ in bounds))
    end = _positions(*(first + more for first, more in bounds))

    chosen = limited(start, end, most)

    assert waiting_offsets(start, chosen) == min(most, waiting_offsets(start, end))
    assert all(start[one] <= chosen[one] <= end[one] for one in end)


@given(OFFSETS, st.integers(1, 12), st.integers(1, 20))
def test_pieces_cover_each_offset_once(bounds: list[tuple[int, int]], least: int, most: int) -> None:
    start = _positions(*(first for first, _ in bounds))
    end = _positions(*(first + more for first, more in bounds))

    found = ranges(start, end, partitions_min=least, records_max=most)

    covered = [(one.partition, offset) for one in found for offset in range(one.start, one.end)]
    assert covered == [(one, offset) for one in sorted(end) for offset in range(start[one], end[one])]


def test_positions_survive_sparks_checkpoint() -> None:
    positions = _positions(4, 0, 7)

    assert tree_of(positions) == {"t": {"0": 4, "1": 0, "2": 7}}
    assert positions_of(tree_of(positions)) == positions
