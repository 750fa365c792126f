from __future__ import annotations

from pathlib import Path

import pytest

from harness.logs import NOON_MS, PARTITION, append, batch_of, new_log, reopened, stage
from tidelog.env.clock import SimulatedClock
from tidelog.env.files import RealFiles
from tidelog.log.config import LogConfig
from tidelog.log.partition import PartitionLog
from tidelog.model.ids import Offset
from tidelog.wire.compression import Compression


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    config = LogConfig(segment_bytes=3000, index_interval_bytes=300)
    return new_log(RealFiles(), SimulatedClock(NOON_MS), str(tmp_path / str(PARTITION)), config)


@pytest.mark.req("B6", "K12")
@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP, Compression.ZSTD])
def test_the_very_record_is_found_by_its_time_within_its_batch(log: PartitionLog, compression: Compression) -> None:
    for number in range(100):
        values = [b"v" * 60] * 5
        stage(log, batch_of(values, timestamp=NOON_MS + 50 * number, step_ms=10, compression=compression))
        log.write_staged()
    assert compression or len(log.segments) > 5

    for one in (log, reopened(_closed(log), clean=True)):
        for number in range(0, 500, 7):
            assert one.offset_for_timestamp(NOON_MS + 10 * number) == (NOON_MS + 10 * number, number)
            later = (NOON_MS + 10 * number + 10, number + 1)
            assert one.offset_for_timestamp(NOON_MS + 10 * number + 1) == (later if number < 499 else None)
        assert one.offset_for_timestamp(0) == (NOON_MS, 0)
        assert one.offset_for_timestamp(NOON_MS + 5000) is None
        assert one.max_timestamp_offset() == (NOON_MS + 4990, 499)


def _closed(log: PartitionLog) -> PartitionLog:
    log.close()
    return log


def test_times_in_any_order_give_the_first_record_that_is_late_enough(log: PartitionLog) -> None:
    times = [(number * 37) % 101 for number in range(101)]
    for time in times:
        append(log, b"v" * 60, timestamp=NOON_MS + time)

    for wanted in range(0, 101, 3):
        first = next(offset for offset, time in enumerate(times) if time >= wanted)
        assert log.offset_for_timestamp(NOON_MS + wanted) == (NOON_MS + times[first], first)
    assert log.max_timestamp_offset() == (NOON_MS + 100, times.index(100))


def test_of_equal_times_the_first_counts(log: PartitionLog) -> None:
    for _ in range(50):
        append(log, b"v" * 100, b"w", timestamp=NOON_MS)

    assert log.offset_for_timestamp(NOON_MS) == (NOON_MS, 0)
    assert log.max_timestamp_offset() == (NOON_MS, 0)


def test_records_before_the_start_are_not_found(log: PartitionLog) -> None:
    append(log, b"a", b"b", b"c", timestamp=NOON_MS, step_ms=1)
    append(log, b"d", timestamp=NOON_MS + 9)
    log.advance_start_offset(Offset(2))

    assert log.offset_for_timestamp(NOON_MS) == (NOON_MS + 2, 2)


def test_a_batch_stamped_by_the_broker_has_one_time_for_all_its_records(log: PartitionLog) -> None:
    append(log, b"a")
    stage(log, batch_of([b"b", b"c"], timestamp=5, log_append_time_ms=NOON_MS + 7))
    log.write_staged()

    assert log.offset_for_timestamp(NOON_MS + 1) == (NOON_MS + 7, 1)
    assert log.max_timestamp_offset() == (NOON_MS + 7, 1)


def test_an_empty_log_and_records_without_times_have_nothing_to_find(log: PartitionLog) -> None:
    assert log.offset_for_timestamp(0) is None
    assert log.max_timestamp_offset() is None
    append(log, b"a", timestamp=-1)
    assert log.max_timestamp_offset() is None
