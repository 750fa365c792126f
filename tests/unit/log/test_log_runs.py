"""Runs of batches: the log is the same as if each had come alone, and all of a run is written or nothing."""

from __future__ import annotations

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.leaders import lone_leader
from harness.logs import NOON_MS, append, batch_of, check_indexes, new_log, reopened, values_of
from tidelog.env.clock import SimulatedClock
from tidelog.env.simulated_files import SimulatedFiles
from tidelog.log.config import LogConfig
from tidelog.log.partition import PartitionLog
from tidelog.log.producers import Duplicate
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import LeaderEpoch, Offset
from tidelog.model.topic_settings import topic_config, topic_defaults
from tidelog.wire.batch import SEQUENCE_MASK, read_header
from tidelog.wire.batch_run import BatchRun
from tidelog.wire.messages.produce import PartitionProduceResponse

EPOCH = LeaderEpoch(1)
CONFIG = LogConfig(segment_bytes=3000, index_interval_bytes=200, segment_index_bytes=120)


def run_of(*batches: memoryview) -> BatchRun:
    """What a reader makes of batches that it has checked."""
    headers = [read_header(batch) for batch in batches]
    first = headers[0]
    run = BatchRun(batches[0], first.records_count, first.max_timestamp)
    run.producer_id, run.producer_epoch, run.base_sequence = (
        first.producer_id,
        first.producer_epoch,
        first.base_sequence,
    )
    run.views += batches[1:]
    run.record_counts += [header.records_count for header in headers[1:]]
    run.max_timestamps += [header.max_timestamp for header in headers[1:]]
    return run


def stage_run(log: PartitionLog, run: BatchRun) -> list[Offset]:
    going_on = log.producers.going_on(run) if run.producer_id >= 0 else None
    return log.stage_run(run, sum(map(len, run.views)), max(run.max_timestamps), EPOCH, going_on)


def log_on(files: SimulatedFiles, config: LogConfig = CONFIG) -> PartitionLog:
    files.make_directory("/data")
    return new_log(files, SimulatedClock(NOON_MS), "/data/tides-0", config)


def contents(files: SimulatedFiles) -> dict[str, bytes]:
    folder = "/data/tides-0"
    paths = [f"{folder}/{entry.name}" for entry in files.list(folder)]
    return {path: files.open(path).read(1 << 20, 0) for path in paths}


BATCHES = st.tuples(st.integers(1, 3), st.integers(0, 300), st.integers(-50, 50))


@given(st.lists(st.lists(BATCHES, min_size=1, max_size=8), min_size=1, max_size=12), st.booleans())
def test_a_log_written_in_runs_has_the_files_of_one_written_batch_by_batch(
    runs: list[list[tuple[int, int, int]]], is_idempotent: bool
) -> None:
    sequence = 2**31 - 5
    together, alone = SimulatedFiles(seed=1), SimulatedFiles(seed=1)
    in_runs, one_by_one = log_on(together), log_on(alone)
    for shapes in runs:
        batches = []
        for count, size, later in shapes:
            producer = (7, 0, sequence) if is_idempotent else None
            batches.append(batch_of([bytes(size)] * count, timestamp=NOON_MS + later, producer=producer))
            sequence = (sequence + count) & SEQUENCE_MASK
        for view in batches:
            one_by_one.stage(read_header(view), memoryview(bytearray(view)), EPOCH)
        offsets = stage_run(in_runs, run_of(*batches))
        if offsets:
            assert offsets[1:] == [base + shape[0] for base, shape in zip(offsets, shapes, strict=False)]
        else:
            for view in batches:
                in_runs.stage(read_header(view), view, EPOCH)
        in_runs.write_staged()
        one_by_one.write_staged()
        assert in_runs.producers.entries() == one_by_one.producers.entries()
    for log in (in_runs, one_by_one):
        check_indexes(log)
        log.close()
    assert contents(together) == contents(alone)


def test_a_run_whose_write_fails_is_lost_as_a_whole_and_says_so() -> None:
    files = SimulatedFiles(seed=1)
    log = log_on(files, LogConfig())
    leader = lone_leader(log, EPOCH)
    leader.stage(batch_of([b"kept"], timestamp=NOON_MS), PartitionProduceResponse(0), NOON_MS)
    leader.write_staged()
    answer = PartitionProduceResponse(0)
    run = run_of(batch_of([b"lost"], timestamp=NOON_MS), batch_of([b"lost", b"too"], timestamp=NOON_MS))
    assert leader.stage_run(run, answer, NOON_MS) == [1, 2, 4]
    files.failures[files.operations + 1] = errno.EIO

    leader.write_staged()

    assert (answer.error_code, answer.base_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert values_of(log) == {0: b"kept"}
    assert append(log, b"again", epoch=EPOCH) == 1
    check_indexes(log)
    assert values_of(reopened(log, clean=False)) == {0: b"kept", 1: b"again"}


def test_a_run_of_an_idempotent_producer_is_taken_once_and_in_sequence() -> None:
    log = log_on(SimulatedFiles(seed=1), LogConfig())
    leader = lone_leader(log, EPOCH)
    leader.stage(batch_of([b"first"], timestamp=NOON_MS), PartitionProduceResponse(0), NOON_MS)

    def run_from(sequence: int) -> BatchRun:
        return run_of(*[batch_of([b"v"], timestamp=NOON_MS, producer=(7, 0, sequence + each)) for each in range(7)])

    answer = PartitionProduceResponse(0)
    assert leader.stage_run(run_from(0), answer, NOON_MS) == list(range(1, 9))
    for not_next in (0, 3, 8):
        assert leader.stage_run(run_from(not_next), answer, NOON_MS) == []
    assert leader.stage_run(run_from(7), answer, NOON_MS) == list(range(8, 16))
    leader.write_staged()
    assert log.end_offset == leader.staged_end_offset == 15
    header = read_header(batch_of([b"v"], producer=(7, 0, 10)))
    assert log.producers.check(header) == Duplicate(Offset(11), Offset(11), NOON_MS)


def test_what_is_too_large_or_too_late_is_not_for_a_run() -> None:
    log = log_on(SimulatedFiles(seed=1), LogConfig())
    leader = lone_leader(log, EPOCH)
    leader.stage(batch_of([b"first"], timestamp=NOON_MS), PartitionProduceResponse(0), NOON_MS)
    leader.configure(topic_config(topic_defaults({}), {"max.message.bytes": "100"}))
    small, large = batch_of([b"v"], timestamp=NOON_MS), batch_of([bytes(100)], timestamp=NOON_MS)
    late = batch_of([b"v"], timestamp=NOON_MS + leader.config.message_timestamp_after_max_ms + 1)
    for run in ([large], [small, large], [late], [small, late]):
        assert leader.stage_run(run_of(*run), PartitionProduceResponse(0), NOON_MS) == []
    assert leader.stage_run(run_of(small, small), PartitionProduceResponse(0), NOON_MS) == [1, 2, 3]


@pytest.mark.parametrize("settings", [{"message.timestamp.type": "LogAppendTime"}, {"flush.messages": "1"}])
def test_some_topics_take_no_runs(settings: dict[str, str]) -> None:
    log = log_on(SimulatedFiles(seed=1), LogConfig())
    append(log, b"first", epoch=EPOCH, timestamp=NOON_MS)
    leader = lone_leader(log, EPOCH)
    assert leader.takes_runs
    leader.configure(topic_config(topic_defaults({}), settings))
    assert not leader.takes_runs
