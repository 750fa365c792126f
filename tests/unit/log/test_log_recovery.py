from __future__ import annotations

import random
import struct
import zlib
from pathlib import Path

import pytest

from harness.logs import NOON_MS, PARTITION, append, batch_of, check_indexes, new_log, reopened, stage, values_of
from tidelog.env.clock import SimulatedClock
from tidelog.env.files import RealFile, RealFiles
from tidelog.log.config import LogConfig
from tidelog.log.errors import CorruptLog
from tidelog.log.open_files import OpenFiles
from tidelog.log.partition import PartitionLog
from tidelog.log.recovery import open_log
from tidelog.model.ids import Offset

CONFIG = LogConfig(segment_bytes=3000, index_interval_bytes=400)


class WatchedFiles(RealFiles):
    """The real file system, with a note of every file that was opened."""

    __slots__ = ("opened",)

    def __init__(self) -> None:
        self.opened: list[str] = []

    def open(self, path: str, *, create: bool = False) -> RealFile:
        self.opened.append(Path(path).name)
        return super().open(path, create=create)


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    log = new_log(RealFiles(), SimulatedClock(NOON_MS), str(tmp_path / str(PARTITION)), CONFIG)
    for number in range(60):
        stage(
            log,
            batch_of([b"%03d" % number * 40, b"."], producer=(7, 0, 2 * number), timestamp=NOON_MS + number),
            number // 20,
        )
    log.write_staged()
    assert len(log.segments) > 3
    return log


def last_log(log: PartitionLog) -> Path:
    return Path(log.segments[-1].path(".log"))


def test_after_a_clean_stop_everything_is_as_it_was(log: PartitionLog) -> None:
    expected = values_of(log)
    epochs, producers = log.epochs.entries, log.producers.entries()
    log.close()
    again = reopened(log, clean=True)

    assert values_of(again) == expected
    assert (again.epochs.entries, again.producers.entries()) == (epochs, producers)
    assert again.recovery_point == again.end_offset
    check_indexes(again)


@pytest.mark.req("C10")
def test_opening_after_a_clean_stop_reads_no_sealed_segment(log: PartitionLog) -> None:
    log.close()
    files = WatchedFiles()
    again = open_log(PARTITION, log.directory, OpenFiles(files), log.clock, CONFIG, clean=True)

    active = f"{again.active_segment.base_offset:020d}"
    assert again.end_offset == log.end_offset
    assert {name[:20] for name in files.opened if name[:20].isdigit()} <= {active, f"{again.end_offset:020d}"}


def test_closing_a_log_that_nobody_changed_writes_nothing(log: PartitionLog) -> None:
    log.close()
    before = {path: path.stat().st_mtime_ns for path in Path(log.directory).iterdir()}
    files = WatchedFiles()
    again = open_log(PARTITION, log.directory, OpenFiles(files), log.clock, CONFIG, clean=True)
    assert values_of(again)
    files.opened.clear()
    again.close()

    assert files.opened == []
    assert {path: path.stat().st_mtime_ns for path in Path(log.directory).iterdir()} == before


@pytest.mark.req("C9", "C10")
def test_after_a_crash_only_segments_from_the_recovery_point_on_are_read_and_every_batch_of_them(
    log: PartitionLog,
) -> None:
    expected = values_of(log)
    third = log.segments[2]
    log.flush()
    log.release_files()
    sealed = Path(log.segments[1].path(".log"))
    sealed.write_bytes(sealed.read_bytes()[:-1] + b"?")  # Nobody looks here: it is below the recovery point.
    files = WatchedFiles()
    again = open_log(
        PARTITION, log.directory, OpenFiles(files), log.clock, CONFIG, clean=False, recovery_point=third.base_offset
    )

    opened = {int(name[:20]) for name in files.opened if name.endswith(".log")}
    assert opened == {segment.base_offset for segment in log.segments[2:]}
    assert again.end_offset == log.end_offset
    assert values_of(again, third.base_offset).items() <= expected.items()


@pytest.mark.req("C9")
def test_a_torn_end_is_cut_and_indexes_epochs_and_producers_are_made_again(log: PartitionLog) -> None:
    expected = values_of(log)
    path = last_log(log)
    whole = path.read_bytes()
    starts = _starts(whole)
    log.release_files()
    for cut in (starts[-1] + 1, starts[-1] + 70, len(whole) - 1, starts[-2] + 30):
        path.write_bytes(whole[:cut])
        for index in Path(log.directory).glob("*index"):
            index.write_bytes(b"\x7f" * 37)
        Path(log.directory, "leader-epoch-checkpoint").write_bytes(b"0\n7\n")
        again = reopened(log, clean=False)

        kept = sum(start <= cut for start in starts) - 1
        assert again.end_offset == log.segments[-1].base_offset + 2 * kept
        assert values_of(again) == {offset: value for offset, value in expected.items() if offset < again.end_offset}
        check_indexes(again)
        assert again.epochs.entries == ((0, 0), (1, 40), (2, 80))
        entry = again.producers.entry(7)  # type: ignore[arg-type]
        assert entry is not None
        assert entry.last_sequence == again.end_offset - 1
        assert append(again, b"life goes on", epoch=2) == again.end_offset - 1
        again.release_files()


def _starts(data: bytes) -> list[int]:
    starts, position = [], 0
    while position < len(data):
        starts.append(position)
        position += 12 + struct.unpack_from(">i", data, position + 8)[0]
    return starts


@pytest.mark.req("C9")
def test_any_flipped_bit_past_the_recovery_point_is_found_and_the_log_cut_before_it(log: PartitionLog) -> None:
    expected = values_of(log)
    rng = random.Random(3)
    originals = {path: path.read_bytes() for path in Path(log.directory).iterdir()}
    log.release_files()
    for _ in range(60):
        for path in Path(log.directory).iterdir():
            path.unlink()
        for path, content in originals.items():
            path.write_bytes(content)
        segment = rng.choice(log.segments)
        path = Path(segment.path(".log"))
        data = bytearray(path.read_bytes())
        position = rng.randrange(len(data))
        data[position] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
        again = reopened(log, clean=False)

        batch = sum(start <= position for start in _starts(originals[path])) - 1
        found = values_of(again)
        within = position - _starts(originals[path])[batch]
        if 12 <= within < 16:
            continue  # The leader epoch is not under the checksum, since each leader writes its own.
        assert again.end_offset == segment.base_offset + 2 * batch
        assert found == {offset: value for offset, value in expected.items() if offset < again.end_offset}
        again.release_files()


def test_a_hole_between_segments_ends_the_log_unless_it_is_compacted_up_to_there(log: PartitionLog) -> None:
    expected = values_of(log)
    missing = log.segments[2]
    log.release_files()
    for suffix in (".log", ".index", ".timeindex"):
        Path(missing.path(suffix)).unlink()
    copies = {path: path.read_bytes() for path in Path(log.directory).iterdir()}

    compacted = reopened(log, clean=False, compacted_up_to=log.segments[3].base_offset)
    assert values_of(compacted).keys() == {
        offset for offset in expected if not missing.base_offset <= offset < log.segments[3].base_offset
    }
    compacted.release_files()
    for config in (log.config, LogConfig(segment_bytes=3000, compacted=True)):
        for path, content in copies.items():
            path.write_bytes(content)
        again = reopened(log, clean=False, config=config)
        assert again.end_offset == missing.base_offset
        again.release_files()


def test_messages_of_the_old_format_are_refused_and_not_cut(log: PartitionLog) -> None:
    body = struct.pack(">bbqii", 1, 0, NOON_MS, -1, 3) + b"old"
    message = struct.pack(">qiI", log.end_offset, 4 + len(body), zlib.crc32(body)) + body
    content = last_log(log).read_bytes() + message * 5
    last_log(log).write_bytes(content)
    log.release_files()

    with pytest.raises(CorruptLog):
        reopened(log, clean=False)
    assert last_log(log).read_bytes() == content


@pytest.mark.parametrize("damage", ["missing", "cut", "zeros"])
def test_a_sealed_segment_with_a_bad_index_gets_a_new_one_when_it_is_read(log: PartitionLog, damage: str) -> None:
    expected = values_of(log)
    log.close()
    for segment in log.segments[:2]:
        for suffix in (".index", ".timeindex"):
            path = Path(segment.path(suffix))
            if damage == "missing":
                path.unlink()
            else:
                path.write_bytes(path.read_bytes()[:-3] if damage == "cut" else b"")
    again = reopened(log, clean=True)
    if damage == "zeros":
        # Apache Kafka leaves preallocated zeros behind when it is killed.
        Path(log.segments[0].path(".index")).write_bytes(bytes(80))

    assert values_of(again) == expected
    assert again.offset_for_timestamp(NOON_MS + 3) == (NOON_MS + 3, 6)


def test_leftovers_are_removed(log: PartitionLog) -> None:
    log.close()
    base = log.segments[0].base_offset
    leftovers = ["00000000000000000000.log.deleted", "00000000000000000000.index.cleaned", "00000000000000099999.index"]
    for name in leftovers:
        Path(log.directory, name).write_bytes(b"x")
    again = reopened(log, clean=True)

    assert not any(Path(log.directory, name).exists() for name in leftovers)
    assert again.start_offset == base


def test_a_log_that_ends_before_its_start_begins_anew_there(log: PartitionLog) -> None:
    log.close()
    again = reopened(log, clean=True, start_offset=5000)

    assert (again.start_offset, again.end_offset) == (5000, 5000)
    assert append(again, b"x", epoch=3) == 5000


def test_an_empty_folder_is_a_log_that_starts_where_the_checkpoint_says(tmp_path: Path) -> None:
    (tmp_path / "tides-0").mkdir()
    log = open_log(
        PARTITION,
        str(tmp_path / "tides-0"),
        OpenFiles(RealFiles()),
        SimulatedClock(),
        CONFIG,
        clean=False,
        start_offset=Offset(77),
    )

    assert append(log, b"x") == 77
