"""One partition and its disk: a disk that refuses, and what a flush makes durable."""

from __future__ import annotations

import errno
import threading
import time
from pathlib import Path

import pytest

from harness.logs import NOON_MS, SMALL, append, batch_of, check_indexes, fill, new_log, reopened, stage, values_of
from tidelog.env.clock import SimulatedClock
from tidelog.env.files import RealFiles
from tidelog.env.simulated_files import SimulatedFiles
from tidelog.log.config import DAY_MS, LogConfig
from tidelog.log.errors import LogFlushFailed, LogWriteFailed
from tidelog.log.partition import PartitionLog

# --- a disk that refuses ----------------------------------------------------------------------------------------------


def simulated(config: LogConfig = SMALL) -> tuple[SimulatedFiles, PartitionLog]:
    files = SimulatedFiles(seed=1)
    files.make_directory("/data")
    return files, new_log(files, SimulatedClock(NOON_MS), "/data/tides-0", config)


def test_a_failed_write_takes_everything_staged_back() -> None:
    files, log = simulated()
    append(log, b"kept", epoch=3)
    producer = batch_of([b"lost"], producer=(7, 0, 0))
    stage(log, producer, 4)
    stage(log, batch_of([b"lost too"]), 4)
    files.failures[files.operations + 1] = errno.EIO

    with pytest.raises(LogWriteFailed) as failed:
        log.write_staged()

    assert failed.value.cause.errno == errno.EIO
    assert failed.value.first_lost_offset == 1
    assert values_of(log) == {0: b"kept"}
    assert log.epochs.entries == ((3, 0),)
    assert len(log.producers) == 0
    assert append(log, b"again", epoch=4) == 1
    check_indexes(log)
    assert values_of(reopened(log, clean=False)) == {0: b"kept", 1: b"again"}


def test_a_full_disk_refuses_writes_and_takes_them_again_when_there_is_room() -> None:
    files, log = simulated()
    expected = fill(log, 5)
    files.capacity_bytes = files.capacity_bytes or 0
    files.capacity_bytes = sum(segment.size for segment in log.segments) + 60

    for _ in range(3):
        with pytest.raises(LogWriteFailed) as failed:
            append(log, b"no room" * 20)
        assert failed.value.cause.errno == errno.ENOSPC
        assert values_of(log) == expected
    files.capacity_bytes = None

    base = append(log, b"room")
    assert values_of(log) == expected | {base: b"room"}
    check_indexes(log)


def test_a_torn_end_that_cannot_be_cut_stops_the_log_but_not_its_readers() -> None:
    files, log = simulated()
    append(log, b"kept")
    stage(log, batch_of([b"lost"]))
    files.dead_path = "/data"
    with pytest.raises(LogWriteFailed):
        log.write_staged()
    files.dead_path = None

    with pytest.raises(LogWriteFailed):
        append(log, b"never pretend")
    assert values_of(log) == {0: b"kept"}


def test_what_was_written_before_a_failure_in_the_same_turn_stays() -> None:
    files, log = simulated()
    while not log.active_segment.size > 1700:
        append(log, b"x" * 100)
    end = log.end_offset
    stage(log, batch_of([b"fits"]))
    operations = files.operations
    stage(log, batch_of([b"y" * 400]))  # Rolls: writes what is staged, then starts a new segment.
    assert files.operations > operations

    files.failures[files.operations + 1] = errno.EIO
    with pytest.raises(LogWriteFailed) as failed:
        log.write_staged()

    assert failed.value.first_lost_offset == end + 1
    assert values_of(log)[end] == b"fits"
    assert log.end_offset == end + 1


def test_a_segment_that_cannot_be_started_loses_no_written_batch() -> None:
    for failing in range(1, 12):
        files, log = simulated()
        while not log.active_segment.size > 1700:
            append(log, b"x" * 100)
        expected = values_of(log)
        files.failures[files.operations + failing] = errno.ENOSPC
        try:
            base = append(log, b"y" * 400)
        except LogWriteFailed as failed:
            assert failed.first_lost_offset == log.end_offset
            base = append(log, b"y" * 400)
        files.failures.clear()
        expected[base] = b"y" * 400
        assert values_of(log) == expected
        check_indexes(log)
        assert values_of(reopened(log, clean=False)) == expected


# --- making durable ---------------------------------------------------------------------------------------------------


@pytest.mark.req("B9", "C5", "C6")
def test_a_flush_is_due_by_count_or_by_time(tmp_path: Path, clock: SimulatedClock) -> None:
    config = LogConfig(flush_messages=3, flush_ms=5000)
    log = new_log(RealFiles(), clock, str(tmp_path / "tides-0"), config)
    append(log, b"a", b"b")
    assert not log.flush_is_due(clock.now_ms())
    append(log, b"c")
    assert log.flush_is_due(clock.now_ms())

    assert log.flush() == 3
    assert log.recovery_point == 3
    assert log.unflushed_records == 0
    assert not log.flush_is_due(clock.now_ms())

    append(log, b"d")
    clock.advance(4999)
    assert not log.flush_is_due(clock.now_ms())
    clock.advance(1)
    assert log.flush_is_due(clock.now_ms())


def test_a_sealed_segment_is_flushed_apart_from_the_active_one(log: PartitionLog) -> None:
    fill(log, 30)
    assert log.has_unflushed_segments
    log.flush_sealed()

    assert not log.has_unflushed_segments
    assert log.recovery_point == log.active_segment.base_offset < log.end_offset


def test_flushing_in_a_thread_disturbs_no_append(log: PartitionLog) -> None:
    flushed: list[int] = []

    stop = threading.Event()

    def keep_flushing() -> None:
        while not stop.is_set():
            log.flush_sealed()
            flushed.append(log.flush())

    expected: dict[int, bytes] = {}
    thread = threading.Thread(target=keep_flushing)
    thread.start()
    while len(expected) < 300 or len(flushed) < 5:
        base = append(log, b"%d" % len(expected) * 20)
        expected[base] = b"%d" % len(expected) * 20
        time.sleep(0.0005)
    stop.set()
    thread.join()

    assert flushed == sorted(flushed)
    assert len(log.segments) > 3
    log.flush()
    assert log.recovery_point == log.end_offset
    assert values_of(log) == expected
    check_indexes(log)
    assert values_of(reopened(log, clean=False, recovery_point=log.checkpoint_recovery_point)) == expected


@pytest.mark.req("C5", "C7")
def test_without_settings_the_operating_system_decides_when_to_flush(log: PartitionLog, clock: SimulatedClock) -> None:
    log.configure(LogConfig())
    append(log, *[b"x"] * 1000)
    clock.advance(365 * DAY_MS)

    assert not log.flush_is_due(clock.now_ms())


def test_a_flushed_record_survives_a_crash_and_a_failed_flush_is_never_repeated() -> None:
    files, log = simulated()
    expected = fill(log, 20)
    log.flush()
    append(log, b"not flushed")
    files.failures[files.operations + 1] = errno.EIO

    with pytest.raises(LogFlushFailed):
        log.flush()
    with pytest.raises(LogWriteFailed):
        log.flush()
    with pytest.raises(LogWriteFailed):
        append(log, b"the disk is not to be trusted")
    recovery_point = log.recovery_point
    files.sync_directory("/data")
    files.crash()
    assert values_of(reopened(log, clean=False, recovery_point=recovery_point)).items() >= expected.items()
