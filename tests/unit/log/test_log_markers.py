"""Markers that the log makes itself: the same as those that it reads, from a coordinator elsewhere or from a leader."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harness.logs import NOON_MS, batch_of, new_log
from tidelog.env.clock import SimulatedClock
from tidelog.env.simulated_files import SimulatedFiles
from tidelog.log.config import LogConfig
from tidelog.log.partition import PartitionLog
from tidelog.model.ids import LeaderEpoch, ProducerEpoch, ProducerId
from tidelog.wire.batch import read_header
from tidelog.wire.small_batch import build_marker

EPOCH = LeaderEpoch(0)
COORDINATOR_EPOCH = 3
FOLDER = "/data/tides-0"
# Segments of a few transactions each, so that markers begin some, too.
CONFIG = LogConfig(segment_bytes=2_000)


def log_on(files: SimulatedFiles) -> PartitionLog:
    files.make_directory("/data")
    return new_log(files, SimulatedClock(NOON_MS), FOLDER, CONFIG)


def contents(files: SimulatedFiles) -> dict[str, bytes]:
    paths = [f"{FOLDER}/{entry.name}" for entry in files.list(FOLDER)]
    return {path: files.open(path).read(1 << 20, 0) for path in paths}


# Of each transaction: who writes it, the size of its only record (none: it writes nothing here), and how it ends.
TRANSACTIONS = st.tuples(st.integers(1, 3), st.none() | st.integers(0, 400), st.booleans())


@given(st.lists(TRANSACTIONS, max_size=25))
def test_a_marker_that_the_log_makes_is_the_one_that_it_would_have_read(
    transactions: list[tuple[int, int | None, bool]],
) -> None:
    makes, reads = SimulatedFiles(seed=1), SimulatedFiles(seed=1)
    making, reading = log_on(makes), log_on(reads)
    epochs = dict.fromkeys(range(1, 4), 0)
    for number, (producer, size, is_commit) in enumerate(transactions):
        now_ms = NOON_MS + number
        if size is not None:
            for log in (making, reading):
                batch = batch_of(
                    [bytes(size)], timestamp=now_ms, producer=(producer, epochs[producer], 0), is_transactional=True
                )
                log.stage(read_header(batch), batch, EPOCH)
        epochs[producer] += 1
        who = ProducerId(producer), ProducerEpoch(epochs[producer])
        made_at = making.stage_marker(*who, is_commit, COORDINATOR_EPOCH, now_ms, EPOCH)
        marker = memoryview(build_marker(is_commit, *who, COORDINATOR_EPOCH, now_ms))
        assert made_at == reading.stage(read_header(marker), marker, EPOCH)
        for log in (making, reading):
            log.write_staged()
        assert making.producers.entries() == reading.producers.entries()
        assert making.producers.first_unstable_offset() == reading.producers.first_unstable_offset()
    assert making.end_offset == reading.end_offset
    assert contents(makes) == contents(reads)
