from __future__ import annotations

from pathlib import Path

import pytest

from harness.logs import NOON_MS, SMALL, append, batch_of, check_indexes, fill, new_log, reopened, stage, values_of
from tidelog.env.clock import SimulatedClock
from tidelog.env.files import RealFiles
from tidelog.log.config import DAY_MS, LogConfig
from tidelog.log.errors import OffsetOutOfRange
from tidelog.log.partition import PartitionLog
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import LeaderEpoch, Offset
from tidelog.wire.batch import read_header


def names(log: PartitionLog, suffix: str) -> list[str]:
    return sorted(path.name for path in Path(log.directory).iterdir() if path.name.endswith(suffix))


@pytest.mark.req("B1", "B2", "B3", "B4", "B18")
def test_a_partition_is_a_folder_whose_first_segment_is_named_after_offset_0_in_20_digits(log: PartitionLog) -> None:
    append(log, b"first")

    assert Path(log.directory).name == "tides-0"
    assert names(log, ".log") == ["00000000000000000000.log"]
    assert names(log, "index") == ["00000000000000000000.index", "00000000000000000000.timeindex"]


@pytest.mark.req("A17", "B11")
def test_offsets_are_given_in_order_and_written_into_the_batches(log: PartitionLog) -> None:
    bases = [append(log, b"a"), append(log, b"b", b"c"), append(log, b"d")]

    assert bases == [0, 1, 3]
    assert log.end_offset == 4
    part = log.read(Offset(0), 1 << 20, log.end_offset)
    assert part is not None
    assert read_header(part.read()).base_offset == 0
    assert values_of(log) == {0: b"a", 1: b"b", 2: b"c", 3: b"d"}


@pytest.mark.req("C1")
def test_staged_batches_are_in_the_log_only_when_they_are_written(log: PartitionLog) -> None:
    offsets = [stage(log, batch_of([b"x"])) for _ in range(3)]

    assert offsets == [0, 1, 2]
    assert log.end_offset == 0
    assert values_of(log) == {}
    log.write_staged()
    assert values_of(log) == {0: b"x", 1: b"x", 2: b"x"}


@pytest.mark.req("B10", "B12", "B13")
def test_a_segment_that_would_grow_too_large_is_sealed_and_only_the_last_one_is_appended_to(log: PartitionLog) -> None:
    first = fill(log, 30)
    sealed = {path: path.read_bytes() for path in Path(log.directory).glob("*.log") if path.stat().st_size}
    active = max(sealed)
    more = append(log, b"more" * 20)

    assert len(names(log, ".log")) > 2
    assert all(path.stat().st_size <= SMALL.segment_bytes for path in sealed)
    assert all(path.read_bytes() == content for path, content in sealed.items() if path != active)
    assert values_of(log) == first | {more: b"more" * 20}
    assert [int(name[:20]) for name in names(log, ".log")] == [segment.base_offset for segment in log.segments]


@pytest.mark.req("B14")
def test_a_batch_much_later_than_the_first_of_its_segment_starts_a_new_one(
    tmp_path: Path, clock: SimulatedClock
) -> None:
    log = new_log(RealFiles(), clock, str(tmp_path / "tides-0"))
    append(log, b"today", timestamp=NOON_MS)
    append(log, b"within the week", timestamp=NOON_MS + 7 * DAY_MS)
    assert len(log.segments) == 1

    append(log, b"a week later", timestamp=NOON_MS + 7 * DAY_MS + 1)

    assert LogConfig().segment_ms == 7 * DAY_MS
    assert [segment.base_offset for segment in log.segments] == [0, 2]


@pytest.mark.req("B14")
def test_batches_without_timestamps_roll_by_the_clock(log: PartitionLog, clock: SimulatedClock) -> None:
    append(log, b"a", timestamp=-1)
    clock.advance(SMALL.segment_ms)
    append(log, b"b", timestamp=-1)
    clock.advance(1)
    append(log, b"c", timestamp=-1)

    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_time_to_roll_counts_from_the_first_batch_across_a_restart(log: PartitionLog) -> None:
    append(log, b"a", timestamp=NOON_MS)
    append(log, b"b", timestamp=NOON_MS + 5)
    log.close()
    log = reopened(log, clean=True)

    append(log, b"c", timestamp=NOON_MS + SMALL.segment_ms)
    append(log, b"d", timestamp=NOON_MS + SMALL.segment_ms + 1)

    assert [segment.base_offset for segment in log.segments] == [0, 3]


@pytest.mark.parametrize("clean", [True, False])
def test_a_restart_leaves_no_stretch_without_an_index_entry(log: PartitionLog, clean: bool) -> None:
    append(log, b"." * 3 * SMALL.index_interval_bytes)
    if clean:
        log.close()
    log = reopened(log, clean=clean)

    append(log, b"behind a large batch")

    assert log.segments[-1].offset_index.count == 1
    log.truncate_to(Offset(1))
    append(log, b"another in its place")
    assert log.segments[-1].offset_index.count == 1


def test_a_full_index_starts_a_new_segment(tmp_path: Path, clock: SimulatedClock) -> None:
    config = LogConfig(index_interval_bytes=10, segment_index_bytes=60)
    log = new_log(RealFiles(), clock, str(tmp_path / "tides-0"), config)
    expected = fill(log, 30)

    assert len(log.segments) > 3
    assert all(path.stat().st_size <= 60 for path in Path(log.directory).glob("*index"))
    assert values_of(log) == expected


def test_a_batch_larger_than_a_segment_is_refused(log: PartitionLog) -> None:
    with pytest.raises(ProtocolError) as refused:
        append(log, b"x" * 2000)

    assert refused.value.code == ErrorCode.RECORD_LIST_TOO_LARGE
    assert append(log, b"y") == 0


@pytest.mark.req("B5", "B7", "B15", "B16")
def test_any_offset_is_found_through_a_sparse_index_that_agrees_with_the_batches(log: PartitionLog) -> None:
    expected = fill(log, 100)

    check_indexes(log)
    rows = sum(segment.offset_index.count for segment in log.segments)
    assert 10 < rows < 60, "sparse: an entry for every 300 bytes, not for every batch"
    for offset in expected:
        assert values_of(log, offset, max_bytes=400).items() <= expected.items()
        part = log.read(Offset(offset), 1, log.end_offset)
        assert part is not None
        header = read_header(part.read())
        assert header.base_offset <= offset <= header.last_offset
        assert len(part) == header.size_bytes


def test_a_read_returns_whole_batches_within_the_limit(log: PartitionLog) -> None:
    expected = fill(log, 100)

    for max_bytes in (150, 300, 777, 1500, 5000):
        part = log.read(Offset(0), max_bytes, log.end_offset)
        assert part is not None
        assert len(part) <= max(max_bytes, 200)
        assert values_of(log, max_bytes=max_bytes) == expected


def test_a_first_batch_that_does_not_fit_is_returned_only_when_asked_for(log: PartitionLog) -> None:
    append(log, b"x" * 500)

    assert log.read(Offset(0), 100, log.end_offset, at_least_one_batch=False) is None
    part = log.read(Offset(0), 100, log.end_offset, at_least_one_batch=True)
    assert part is not None
    assert len(part) > 500


@pytest.mark.req("D13")
def test_a_reader_gets_nothing_at_or_after_its_limit(log: PartitionLog) -> None:
    fill(log, 100)

    for number, segment in enumerate(log.segments[1:], 1):
        for limit in (segment.base_offset, segment.base_offset - 2):
            offset = log.segments[number - 1].base_offset
            part = log.read(offset, 1 << 20, limit)
            assert part is not None
            assert all(header_last < limit + 2 for header_last in _last_offsets(part.read()))
    assert log.read(Offset(5), 1 << 20, Offset(5)) is None
    assert log.read(Offset(9), 1 << 20, Offset(5)) is None


def _last_offsets(data: bytes) -> list[int]:
    lasts = []
    position = 0
    while position < len(data):
        header = read_header(data, position)
        lasts.append(header.last_offset)
        position += header.size_bytes
    return lasts


def test_the_end_of_the_log_is_empty_and_behind_it_is_out_of_range(log: PartitionLog) -> None:
    append(log, b"a", b"b")

    assert log.read(Offset(2), 1000, log.end_offset) is None
    with pytest.raises(OffsetOutOfRange):
        log.read(Offset(3), 1000, log.end_offset)
    with pytest.raises(OffsetOutOfRange):
        log.read(Offset(-1), 1000, log.end_offset)


def test_a_reader_in_flight_keeps_its_bytes_when_the_segment_is_deleted(
    log: PartitionLog, clock: SimulatedClock
) -> None:
    expected = fill(log, 60)
    part = log.read(Offset(0), 500, log.end_offset)
    assert part is not None

    clock.advance(30 * DAY_MS)
    assert log.delete_old_segments(clock.now_ms(), log.end_offset) > 3
    log.reap(clock.now_ms() + log.config.file_delete_delay_ms)

    assert read_header(part.read()).base_offset == 0
    assert expected[0] in part.read()


@pytest.mark.req("C11")
def test_partitions_are_stored_apart(tmp_path: Path, clock: SimulatedClock) -> None:
    one = new_log(RealFiles(), clock, str(tmp_path / "tides-0"))
    other = new_log(RealFiles(), clock, str(tmp_path / "tides-1"))
    append(one, b"one")
    append(other, b"other")
    for path in Path(one.directory).iterdir():
        path.unlink()

    assert values_of(other) == {0: b"other"}


# --- cutting ----------------------------------------------------------------------------------------------------------


def test_truncation_drops_the_batch_that_holds_the_offset_and_all_after_it(log: PartitionLog) -> None:
    expected = fill(log, 100)
    for cut in (150, 100, 37, 3):
        log.truncate_to(Offset(cut))

        assert cut - 3 < log.end_offset <= cut
        expected = {offset: value for offset, value in expected.items() if offset < log.end_offset}
        assert values_of(log) == expected
        assert len(names(log, ".log")) == len(log.segments)
        check_indexes(log)
    base = append(log, b"new")
    assert base == log.end_offset - 1
    log.close()
    assert values_of(reopened(log, clean=True)) == expected | {base: b"new"}


def test_truncation_takes_epochs_and_producers_back(log: PartitionLog) -> None:
    for sequence in range(10):
        stage(log, batch_of([b"x"], producer=(7, 0, sequence)), epoch=sequence // 3)
    log.write_staged()
    log.roll()
    stage(log, batch_of([b"y"], producer=(7, 0, 10)), epoch=9)
    log.write_staged()

    log.truncate_to(Offset(5))

    assert log.epochs.entries == ((0, 0), (1, 3))
    entry = log.producers.entry(7)  # type: ignore[arg-type]
    assert entry is not None
    assert entry.last_sequence == 4
    assert stage(log, batch_of([b"z"], producer=(7, 0, 5)), epoch=2) == 5


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_cut_that_was_prepared_knows_the_same_producers_and_reads_little(log: PartitionLog, cut: int) -> None:
    log.configure(LogConfig(segment_bytes=100_000, index_interval_bytes=300))
    for number in range(60):
        stage(log, batch_of([b"x"], producer=(7 + number % 2, 0, number // 2)))
        log.write_staged()
    task = log.cut_task(Offset(cut))
    known = None if task is None else task.run()

    log.truncate_to(Offset(cut), known)

    assert {entry.producer_id: entry.last_sequence for entry in log.producers.entries()} == {
        producer: last // 2 for producer, last in ((7 + number % 2, number) for number in range(cut))
    }
    if known is not None:
        rows_apart = 300 // len(batch_of([b"x"], producer=(7, 0, 0))) + 2
        assert cut - rows_apart <= known.offset <= cut
    else:
        assert cut < 10, "there is no entry in the index before it"


def test_truncating_before_the_start_empties_the_log(log: PartitionLog) -> None:
    fill(log, 50)
    log.truncate_fully_and_start_at(Offset(1000))

    assert (log.start_offset, log.end_offset) == (1000, 1000)
    assert names(log, ".log") == ["00000000000000001000.log"]
    assert append(log, b"x") == 1000
    log.close()
    assert values_of(reopened(log, clean=True)) == {1000: b"x"}


@pytest.mark.req("B17", "P1")
def test_segments_older_than_retention_go_as_a_whole_oldest_first(log: PartitionLog, clock: SimulatedClock) -> None:
    expected = fill(log, 60, step_ms=60_000)
    third = log.segments[3]
    clock.set_wall_clock(log.segments[2].largest_timestamp().timestamp + log.config.retention_ms + 1)

    assert log.delete_old_segments(clock.now_ms(), log.end_offset) == 3

    assert log.start_offset == third.base_offset
    assert values_of(log) == {offset: value for offset, value in expected.items() if offset >= third.base_offset}
    with pytest.raises(OffsetOutOfRange):
        log.read(Offset(0), 1000, log.end_offset)


@pytest.mark.req("P2", "B17")
def test_retention_by_size_keeps_at_least_so_many_bytes(log: PartitionLog, clock: SimulatedClock) -> None:
    fill(log, 60)
    log.configure(LogConfig(segment_bytes=2000, index_interval_bytes=300, retention_bytes=4000, retention_ms=-1))

    assert log.delete_old_segments(clock.now_ms(), log.end_offset) > 1
    assert 4000 <= log.size_bytes < 6000


def test_nothing_above_the_high_watermark_is_deleted(log: PartitionLog, clock: SimulatedClock) -> None:
    fill(log, 60)
    clock.advance(100 * DAY_MS)
    high_watermark = Offset(log.segments[2].base_offset + 1)

    assert log.delete_old_segments(clock.now_ms(), high_watermark) == 2
    assert log.start_offset <= high_watermark


def test_even_the_last_segment_goes_when_all_its_records_are_too_old(log: PartitionLog, clock: SimulatedClock) -> None:
    fill(log, 10)
    end = log.end_offset
    clock.advance(8 * DAY_MS)

    log.delete_old_segments(clock.now_ms(), end)

    assert (log.start_offset, log.end_offset) == (end, end)
    assert append(log, b"next") == end
    log.close()
    assert values_of(reopened(log, clean=True)) == {end: b"next"}


@pytest.mark.req("B17")
def test_deleted_files_are_renamed_first_and_removed_after_the_delay(log: PartitionLog, clock: SimulatedClock) -> None:
    fill(log, 60)
    clock.advance(8 * DAY_MS)
    log.delete_old_segments(clock.now_ms(), log.end_offset)
    doomed = names(log, ".deleted")
    assert any(name.endswith(".log.deleted") for name in doomed)

    log.reap(clock.now_ms() + log.config.file_delete_delay_ms - 1)
    assert names(log, ".deleted") == doomed
    log.reap(clock.now_ms() + log.config.file_delete_delay_ms)
    assert names(log, ".deleted") == []


def test_records_deleted_by_offset_are_gone_at_once_and_their_segments_later(
    log: PartitionLog, clock: SimulatedClock
) -> None:
    expected = fill(log, 60)
    log.advance_start_offset(Offset(50))

    assert values_of(log) == {offset: value for offset, value in expected.items() if offset >= 50}
    with pytest.raises(OffsetOutOfRange):
        log.read(Offset(49), 1000, log.end_offset)
    with pytest.raises(OffsetOutOfRange):
        log.advance_start_offset(Offset(log.end_offset + 1))
    count = len(log.segments)
    assert log.delete_old_segments(clock.now_ms(), log.end_offset) > 0
    assert len(log.segments) < count
    assert log.segments[0].base_offset <= 50
    log.close()
    assert reopened(log, clean=True, start_offset=50).start_offset == 50


# --- epochs and replication -------------------------------------------------------------------------------------------


@pytest.mark.req("B8")
def test_the_file_of_leader_epochs_says_which_epoch_began_where(log: PartitionLog) -> None:
    append(log, b"a", b"b", epoch=2)
    append(log, b"c", epoch=2)
    append(log, b"d", epoch=5)
    log.close()

    assert Path(log.directory, "leader-epoch-checkpoint").read_text() == "0\n2\n2 0\n5 3\n"
    assert log.end_offset_for_epoch(LeaderEpoch(2)) == (2, 3)
    assert log.end_offset_for_epoch(LeaderEpoch(4)) == (2, 3)
    assert log.end_offset_for_epoch(LeaderEpoch(5)) == (5, 4)
    assert log.end_offset_for_epoch(LeaderEpoch(6)) == (-1, -1)
    part = log.read(Offset(3), 1000, log.end_offset)
    assert part is not None
    assert read_header(part.read()).leader_epoch == 5


@pytest.mark.req("D4")
def test_a_follower_has_the_same_bytes_indexes_and_epochs_as_its_leader(
    log: PartitionLog, tmp_path: Path, clock: SimulatedClock
) -> None:
    for number in range(60):
        batch = batch_of([b"%03d" % number * 20], producer=(7, 0, number), timestamp=NOON_MS + number)
        stage(log, batch, epoch=number // 25)
    log.write_staged()
    follower = new_log(RealFiles(), clock, str(tmp_path / "follower" / "tides-0"), SMALL)

    while (part := log.read(follower.end_offset, 700, log.end_offset)) is not None:
        follower.append_replicated(memoryview(bytearray(part.read())))

    assert follower.end_offset == log.end_offset
    assert follower.epochs.entries == log.epochs.entries
    assert follower.producers.entries() == log.producers.entries()
    for name in names(log, ".log"):
        assert Path(follower.directory, name).read_bytes() == Path(log.directory, name).read_bytes()
    check_indexes(follower)


def test_an_offset_too_far_for_an_index_entry_starts_a_new_segment(log: PartitionLog) -> None:
    for base in (0, 2**31 - 1, 2**31, 2**33):
        batch = batch_of([b"far"])
        batch[:8] = base.to_bytes(8, "big")
        batch[12:16] = bytes(4)
        log.append_replicated(batch)

    assert [segment.base_offset for segment in log.segments] == [0, 2**31, 2**33]
    assert values_of(log) == {0: b"far", 2**31 - 1: b"far", 2**31: b"far", 2**33: b"far"}
    log.release_files()
    again = reopened(log, clean=False, config=LogConfig(compacted=True))
    assert len(values_of(again)) == 4, "no skip is taken for a hole"


def test_a_follower_of_a_compacted_log_leaves_no_gap_between_segments(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=400, compacted=True)
    follower = new_log(RealFiles(), SimulatedClock(NOON_MS), str(tmp_path / "tides-0"), config)
    written = {}
    for base in range(0, 3000, 100):
        batch = batch_of([b"%d" % base + b"." * 80])
        batch[:8] = base.to_bytes(8, "big")
        batch[12:16] = bytes(4)
        follower.append_replicated(batch)
        written[base] = b"%d" % base + b"." * 80

    assert [segment.base_offset for segment in follower.segments[1:3]] == [101, 301]
    follower.release_files()
    again = reopened(follower, clean=False)
    assert values_of(again) == written


def test_a_log_belongs_to_one_topic_id(log: PartitionLog) -> None:
    from uuid import UUID

    log.assign_topic_id(UUID(int=7))
    log.assign_topic_id(UUID(int=7))
    with pytest.raises(ProtocolError) as refused:
        log.assign_topic_id(UUID(int=8))

    assert refused.value.code == ErrorCode.INCONSISTENT_TOPIC_ID
    assert Path(log.directory, "partition.metadata").read_text() == "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAABw\n"
    log.close()
    assert reopened(log, clean=True).topic_id == UUID(int=7)
