from __future__ import annotations

import errno

import pytest

from harness.logs import NOON_MS, PARTITION, append, batch_of, new_log, reopened, stage
from tidelog.env.clock import SimulatedClock
from tidelog.env.simulated_files import SimulatedFiles
from tidelog.log.config import LogConfig
from tidelog.log.errors import LogWriteFailed
from tidelog.log.partition import PartitionLog
from tidelog.model.ids import LeaderEpoch, Offset, ProducerEpoch, ProducerId
from tidelog.wire.batch import read_header
from tidelog.wire.control import EndTransaction, build_end_transaction

ABORTED = [(7, 0, 1, 2)]


@pytest.fixture
def files() -> SimulatedFiles:
    files = SimulatedFiles()
    files.make_directory("/data")
    return files


@pytest.fixture
def log(files: SimulatedFiles) -> PartitionLog:
    return new_log(files, SimulatedClock(NOON_MS), f"/data/{PARTITION}", LogConfig(segment_bytes=2_000))


def stage_abort(log: PartitionLog) -> None:
    marker = build_end_transaction(EndTransaction(False, 5), ProducerId(7), ProducerEpoch(0), NOON_MS)
    view = memoryview(bytearray(marker))
    log.stage(read_header(view), view, LeaderEpoch(0))


def abort_without_room_for_the_index(log: PartitionLog, files: SimulatedFiles) -> None:
    """The marker is the last thing that the disk takes."""
    stage(log, batch_of([b"aborted"], producer=(7, 0, 0), is_transactional=True))
    log.write_staged()
    stage_abort(log)
    files.failures = {files.operations + 2: errno.ENOSPC}
    log.write_staged()
    assert not files.failures, "the index was tried"


def index_of(log: PartitionLog) -> list[tuple[int, ...]]:
    return [tuple(aborted) for segment in log.segments for aborted in segment.transaction_index.all()]


def test_an_aborted_transaction_that_does_not_fit_into_its_index_is_aborted_for_readers_all_the_same(
    log: PartitionLog, files: SimulatedFiles
) -> None:
    abort_without_room_for_the_index(log, files)
    log.producers.replicated_up_to(log.end_offset)

    assert index_of(log) == []
    assert log.last_stable_offset(log.end_offset) == 2, "so readers get past its marker"
    assert log.aborted_transactions(Offset(0), log.end_offset) == ABORTED
    assert log.aborted_transactions(Offset(2), Offset(9)) == []


def test_the_index_is_made_up_for_with_the_next_write_also_in_a_new_segment(
    log: PartitionLog, files: SimulatedFiles
) -> None:
    abort_without_room_for_the_index(log, files)
    append(log, b"x" * 1_900)
    assert len(log.segments) == 2

    (first, second) = log.segments
    assert first.transaction_index.all() == ABORTED
    assert second.transaction_index.all() == []
    assert log.aborted_transactions(Offset(0), log.end_offset) == ABORTED, "and it is told once"


@pytest.mark.parametrize("clean", [True, False])
def test_a_restart_finds_what_the_index_did_not_take(log: PartitionLog, files: SimulatedFiles, clean: bool) -> None:
    abort_without_room_for_the_index(log, files)
    if clean:
        log.close()

    again = reopened(log, clean=clean)
    assert again.aborted_transactions(Offset(0), again.end_offset) == ABORTED
    assert index_of(again) == ABORTED


def test_a_truncation_forgets_markers_that_no_index_has(log: PartitionLog, files: SimulatedFiles) -> None:
    abort_without_room_for_the_index(log, files)
    log.truncate_to(Offset(1))

    assert log.aborted_transactions(Offset(0), log.end_offset) == []


def test_a_marker_that_could_not_be_written_aborts_nothing(log: PartitionLog, files: SimulatedFiles) -> None:
    stage(log, batch_of([b"open"], producer=(7, 0, 0), is_transactional=True))
    log.write_staged()
    stage_abort(log)
    files.failures = {files.operations + 1: errno.ENOSPC}
    with pytest.raises(LogWriteFailed):
        log.write_staged()
    append(log, b"later")

    assert log.aborted_transactions(Offset(0), log.end_offset) == []
    assert log.last_stable_offset(log.end_offset) == 0
