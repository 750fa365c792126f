"""What compaction keeps and what it lets go: keys, tombstones, transactions, producers, compressed batches, passes."""

from __future__ import annotations

from functools import partial

import msgspec
import pytest

from harness.compacting import batches_of, compact, end_transaction, keyed, newest_values, records_of
from harness.logs import NOON_MS, check_indexes, new_log, reopened, stage
from tidelog.env.clock import SimulatedClock
from tidelog.env.simulated_files import SimulatedFiles
from tidelog.log import batch_filter, key_offsets, record_lot
from tidelog.log.cleanable import dirty_span, view_of
from tidelog.log.config import LogConfig
from tidelog.log.errors import CorruptLog
from tidelog.log.key_offsets import ENTRY_BYTES
from tidelog.log.partition import PartitionLog
from tidelog.model.ids import Offset, ProducerId
from tidelog.wire.batch import HEADER_BYTES, read_header
from tidelog.wire.compression import Compression
from tidelog.wire.keys.rebase import rebase
from tidelog.wire.records import Record, build_batch, seal_batch

CONFIG = LogConfig(segment_bytes=1 << 16, index_interval_bytes=100, compacted=True, delete_retention_ms=1000)


@pytest.fixture(autouse=True, params=["table", "table, small lots", "dict"])
def keys_are_in_a(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to remember keys keep the same, however many batches are judged together."""
    if request.param == "table, small lots":
        monkeypatch.setattr(record_lot, "SPAN_BYTES_MAX", 200)
    if request.param == "dict":
        monkeypatch.setattr(key_offsets, "COMPILED", False)
        monkeypatch.setattr(batch_filter, "rebase", partial(rebase, compiled=False))


@pytest.fixture
def clock() -> SimulatedClock:
    return SimulatedClock(NOON_MS)


@pytest.fixture
def log(clock: SimulatedClock) -> PartitionLog:
    files = SimulatedFiles()
    files.make_directory("/data")
    return new_log(files, clock, "/data/tides-0", CONFIG)


@pytest.mark.req("P3")
def test_the_newest_record_of_each_key_stays_where_it_was(log: PartitionLog) -> None:
    keyed(log, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"))
    keyed(log, (b"b", b"2"), (b"c", b"1"))
    end = compact(log)
    assert end == 5
    assert {offset: (record.key, record.value) for offset, record in records_of(log).items()} == {
        2: (b"a", b"2"),
        3: (b"b", b"2"),
        4: (b"c", b"1"),
    }
    check_indexes(log)


def test_a_batch_keeps_its_range_and_the_times_of_its_records(log: PartitionLog) -> None:
    keyed(log, (b"a", b"1"), (b"b", b"1"), (b"c", b"1"), timestamp=NOON_MS, step_ms=400)
    keyed(log, (b"c", b"2"), (b"a", b"2"), timestamp=NOON_MS)
    compact(log)
    (header, records), *_ = batches_of(log)
    assert (header.base_offset, header.last_offset, header.records_count) == (0, 2, 1)
    assert [(record.offset, record.timestamp) for record in records] == [(1, NOON_MS + 400)]
    assert header.max_timestamp == NOON_MS + 400


def test_a_batch_of_which_all_stays_is_not_touched(log: PartitionLog) -> None:
    keyed(log, (b"a", b"1"), (b"b", b"1"))
    keyed(log, (b"c", b"1"))
    before = log.segments[0].opened().read(1 << 20, 0)
    compact(log)
    assert log.segments[0].opened().read(1 << 20, 0) == before


def test_the_active_segment_is_left_alone(log: PartitionLog) -> None:
    keyed(log, (b"a", b"1"))
    log.roll()
    keyed(log, (b"a", b"2"))
    log.flush()
    view = view_of(log, Offset(0), log.end_offset)
    assert [segment.base_offset for segment in view.sealed] == [0]


def test_what_is_not_on_the_disk_supersedes_nothing(log: PartitionLog) -> None:
    keyed(log, (b"a", b"1"))
    log.roll()
    log.flush()
    keyed(log, (b"a", b"2"))
    log.roll()
    assert [segment.base_offset for segment in view_of(log, Offset(0), log.end_offset).sealed] == [0]


def test_a_record_above_the_high_watermark_supersedes_nothing(log: PartitionLog) -> None:
    keyed(log, (b"a", b"1"))
    log.roll()
    keyed(log, (b"a", b"2"))
    log.roll()
    log.flush()
    assert [segment.base_offset for segment in view_of(log, Offset(0), Offset(1)).sealed] == [0]


@pytest.mark.parametrize("compression", list(Compression))
def test_compressed_batches_are_compressed_again(log: PartitionLog, compression: Compression) -> None:
    keyed(log, *[(b"k%d" % (number % 5), b"v" * 100) for number in range(50)], compression=compression)
    keyed(log, (b"k0", b"newest"), compression=compression)
    compact(log)
    assert [(offset, record.key) for offset, record in records_of(log).items()] == [
        (46, b"k1"),
        (47, b"k2"),
        (48, b"k3"),
        (49, b"k4"),
        (50, b"k0"),
    ]
    assert {header.compression for header, _ in batches_of(log)} == {compression}


def test_a_tombstone_stays_for_a_while_and_goes_with_what_it_deletes_first(
    log: PartitionLog, clock: SimulatedClock
) -> None:
    keyed(log, (b"a", b"1"), (b"b", b"1"))
    keyed(log, (b"a", None))
    end = compact(log)
    assert list(records_of(log)) == [1, 2]
    horizon = [header for header, _ in batches_of(log) if header.has_delete_horizon]
    assert [(header.base_offset, header.base_timestamp) for header in horizon] == [(2, NOON_MS + 1000)]
    assert records_of(log)[2].timestamp == NOON_MS
    clock.advance(999)
    keyed(log, (b"c", b"1"))
    end = compact(log, end)
    assert list(records_of(log)) == [1, 2, 3]
    assert [header.base_timestamp for header, _ in batches_of(log) if header.has_delete_horizon] == [NOON_MS + 1000]
    clock.advance(1)
    keyed(log, (b"d", b"1"))
    compact(log, end)
    assert list(records_of(log)) == [1, 3, 4]


def test_a_producers_last_sequence_is_not_forgotten(log: PartitionLog) -> None:
    keyed(log, (b"a", b"1"), producer=(7, 0, 0))
    keyed(log, (b"a", b"2"), producer=(7, 0, 1))
    keyed(log, (b"a", b"3"))
    compact(log)
    assert list(records_of(log)) == [2]
    assert [(header.base_offset, header.records_count, header.producer_id) for header, _ in batches_of(log)] == [
        (1, 0, 7),
        (2, 1, -1),
    ]
    again = reopened(log, clean=False)
    entry = again.producers.entry(ProducerId(7))
    assert entry is not None
    assert entry.last_sequence == 1


@pytest.mark.req("P3")
def test_records_of_an_aborted_transaction_supersede_nothing_and_go(log: PartitionLog, clock: SimulatedClock) -> None:
    keyed(log, (b"a", b"committed"))
    keyed(log, (b"a", b"aborted"), producer=(7, 0, 0), is_transactional=True)
    marker = end_transaction(log, 7, commit=False)
    end = compact(log)
    assert newest_values(list(records_of(log).values())) == {b"a": b"committed"}
    assert any(header.is_control and header.base_offset == marker for header, _ in batches_of(log))
    assert [one.first_offset for one in log.aborted_transactions(Offset(0), log.end_offset)] == [1]
    # Its records are gone, except the empty batch that knows the sequence: the marker stays with it.
    keyed(log, (b"b", b"1"), producer=(7, 0, 1))
    end = compact(log, end)
    clock.advance(2000)
    for number in range(3):
        keyed(log, (b"c", b"%d" % number))
        end = compact(log, end)
        clock.advance(2000)
    assert not any(header.is_control for header, _ in batches_of(log))
    assert log.aborted_transactions(Offset(0), log.end_offset) == []


def test_a_commit_marker_stays_as_long_as_a_record_of_its_transaction(log: PartitionLog, clock: SimulatedClock) -> None:
    keyed(log, (b"a", b"1"), producer=(7, 0, 0), is_transactional=True)
    end_transaction(log, 7, commit=True)
    end = 0
    for number in range(4):
        keyed(log, (b"b", b"%d" % number))
        end = compact(log, end)
        clock.advance(5000)
    assert [header.base_offset for header, _ in batches_of(log) if header.is_control] == [1]
    again = reopened(log, clean=False)
    again.producers.replicated_up_to(again.end_offset)
    assert again.producers.first_unstable_offset() is None


def test_an_open_transaction_is_not_compacted(log: PartitionLog) -> None:
    keyed(log, (b"a", b"1"))
    log.roll()
    keyed(log, (b"a", b"2"), producer=(7, 0, 0), is_transactional=True)
    assert compact(log) == 1
    assert list(records_of(log)) == [0, 1]


def test_more_keys_than_memory_are_compacted_in_passes(log: PartitionLog) -> None:
    for version in range(3):
        for number in range(20):
            keyed(log, (b"k%d" % number, b"%d" % version))
    end, passes = Offset(0), 0
    while end < 60:
        following = compact(log, end, keys_bytes_max=7 * ENTRY_BYTES)
        assert following > end
        end, passes = following, passes + 1
    assert passes > 3
    assert newest_values(list(records_of(log).values())) == {b"k%d" % number: b"2" for number in range(20)}
    assert list(records_of(log)) == list(range(40, 60))
    check_indexes(log)


def test_a_batch_with_more_keys_than_memory_is_compacted_all_the_same(log: PartitionLog) -> None:
    for version in range(2):
        keyed(log, *((b"k%d" % number, b"%d" % version) for number in range(50)))
    ends = [compact(log, keys_bytes_max=7 * ENTRY_BYTES)]
    ends.append(compact(log, ends[0], keys_bytes_max=7 * ENTRY_BYTES))
    assert ends == [50, 100]
    assert list(records_of(log)) == list(range(50, 100))


def test_a_batch_that_lies_about_its_records_is_named_and_nothing_is_changed(log: PartitionLog) -> None:
    keyed(log, (b"a", b"1"), (b"a", b"2"))
    data = bytearray(build_batch([Record(0, NOON_MS, b"a", b"1"), Record(0, NOON_MS, b"a", b"2")]))
    changed = msgspec.structs.replace(read_header(data), records_count=1, last_offset_delta=0)
    stage(log, memoryview(bytearray(seal_batch(changed, data[HEADER_BYTES:]))))
    log.write_staged()
    before = log.segments[0].opened().read(1 << 20, 0)
    with pytest.raises(CorruptLog, match="cannot be read"):
        compact(log)
    assert log.segments[0].opened().read(1 << 20, 0) == before


def test_small_segments_are_merged_into_one(log: PartitionLog) -> None:
    for number in range(6):
        keyed(log, (b"k%d" % (number % 2), b"%d" % number))
        log.roll()
    compact(log)
    assert [segment.base_offset for segment in log.segments] == [0, 6]
    assert [offset for offset in log.snapshots.offsets if offset not in (0, 6)] == []
    assert list(records_of(log)) == [4, 5]


def test_keys_of_any_length_are_told_apart(log: PartitionLog) -> None:
    keys = [b"x" * length for length in (0, 1, 48, 49, 63, 64, 127, 128, 9000)]
    for version in range(2):
        keyed(log, *[(key, b"%d" % version * length) for length, key in enumerate(keys)])
    compact(log)
    assert list(records_of(log)) == list(range(len(keys), 2 * len(keys)))


def test_a_reader_in_flight_keeps_what_it_was_given(log: PartitionLog) -> None:
    keyed(log, (b"a", b"1"))
    keyed(log, (b"a", b"2"))
    part = log.read(Offset(0), 1 << 20, log.end_offset)
    assert part is not None
    before = part.read()
    compact(log)
    assert part.read() == before
    log.reap(NOON_MS + CONFIG.file_delete_delay_ms)
    assert part.read() == before


def test_a_log_that_was_cut_meanwhile_is_not_brought_back_by_a_swap(log: PartitionLog) -> None:
    keyed(log, (b"a", b"1"))
    keyed(log, (b"a", b"2"))
    log.roll()
    log.flush()
    old = log.segments[:1]
    from tidelog.log.compaction import CompactionPass, no_pace

    view = view_of(log, Offset(0), log.end_offset)
    span = dirty_span(view, log.open_files.files, NOON_MS)
    assert span is not None
    compaction = CompactionPass(view, span, log.open_files.files, NOON_MS, keys_bytes_max=1 << 20, pace=no_pace)
    group = next(iter(compaction.groups()))
    assert log.begin_swap(group.old)
    log.truncate_to(Offset(1))
    log.finish_swap()
    assert log.segments[0] is old[0]
    assert list(records_of(reopened(log, clean=False))) == [0]


def test_enough_must_be_dirty_and_old_enough(log: PartitionLog, clock: SimulatedClock) -> None:
    files = log.open_files.files
    keyed(log, (b"a", b"1" * 1000))
    log.roll()
    keyed(log, (b"a", b"2" * 100))
    log.roll()
    log.flush()
    assert dirty_span(view_of(log, Offset(1), log.end_offset), files, NOON_MS) is None
    span = dirty_span(view_of(log, Offset(0), log.end_offset), files, NOON_MS)
    assert span is not None
    assert (span.start, span.end, span.ratio) == (0, 2, 1.0)
    impatient = LogConfig(compacted=True, max_compaction_lag_ms=10)
    log.configure(impatient)
    assert dirty_span(view_of(log, Offset(1), log.end_offset), files, NOON_MS + 10) is None
    assert dirty_span(view_of(log, Offset(1), log.end_offset), files, NOON_MS + 11) is not None
    log.configure(LogConfig(compacted=True, min_compaction_lag_ms=10))
    assert dirty_span(view_of(log, Offset(0), log.end_offset), files, NOON_MS + 9) is None
    assert dirty_span(view_of(log, Offset(0), log.end_offset), files, NOON_MS + 10) is not None
