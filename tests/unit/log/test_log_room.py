from __future__ import annotations

import pytest

from tidelog.log.room import Room, RoomLimits

GIBIBYTE = 1024**3
DEFAULT = RoomLimits(5.0, GIBIBYTE)


@pytest.mark.parametrize(
    ("total_gibibytes", "kept_free_gibibytes"),
    [(1000, 50), (100, 5), (20, 1), (12, 1), (5, 0.5), (0.5, 0.05)],
)
def test_a_twentieth_or_a_gibibyte_is_kept_free_and_of_a_small_disk_a_tenth(
    total_gibibytes: float, kept_free_gibibytes: float
) -> None:
    kept = DEFAULT.free_bytes_min(int(total_gibibytes * GIBIBYTE))
    assert kept == pytest.approx(kept_free_gibibytes * GIBIBYTE, rel=1e-6)


def test_without_limits_a_disk_is_never_short_of_room() -> None:
    assert not RoomLimits(0, 0).is_short(Room(0, GIBIBYTE), was_short=False)


def test_a_disk_that_was_short_must_get_a_little_more_than_the_limit() -> None:
    limits = RoomLimits(10, 0)
    assert limits.is_short(Room(99, 1000), was_short=False)
    assert not limits.is_short(Room(100, 1000), was_short=False)
    assert limits.is_short(Room(101, 1000), was_short=True)
    assert not limits.is_short(Room(102, 1000), was_short=True)
