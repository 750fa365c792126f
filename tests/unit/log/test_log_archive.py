from __future__ import annotations

import contextlib
import errno
from pathlib import Path
from uuid import UUID

import pytest

from harness.logs import NOON_MS, PARTITION, append, batch_of, stage, values_of
from tidelog.env.clock import SimulatedClock
from tidelog.env.files import RealFiles
from tidelog.env.simulated_files import SimulatedCrash, SimulatedFiles
from tidelog.log.archive import RESTORED_SUFFIX, Archive, archived_segments, restore
from tidelog.log.config import LogConfig
from tidelog.log.directories import LogDirectories
from tidelog.log.errors import CorruptLog
from tidelog.log.partition import PartitionLog
from tidelog.model.ids import Offset
from tidelog.wire.batch import iter_headers
from tidelog.wire.records import read_records

CONFIG = LogConfig(segment_bytes=500, index_interval_bytes=100, retention_ms=1000, archives=True)
TOPIC_ID = UUID(int=9)
TARGET = f"/archive/tides.AAAAAAAAAAAAAAAAAAAACQ/{PARTITION}"


class World:
    """A directory with one partition on a simulated disk, and an archive on the same."""

    def __init__(self, seed: int = 0) -> None:
        self.files = SimulatedFiles(seed)
        self.clock = SimulatedClock(NOON_MS)
        self.archive = Archive(self.files, "/archive")
        self.open()

    def open(self) -> None:
        self.directories = LogDirectories(["/data"], self.files, self.clock)
        self.directories.load(lambda _: CONFIG)
        assert not self.directories.offline()

    @property
    def log(self) -> PartitionLog:
        return self.directories.partitions()[PARTITION]

    def fill(self) -> dict[int, bytes]:
        log = self.directories.create(PARTITION, CONFIG, TOPIC_ID)
        for number in range(20):
            append(log, b"%d" % number + b"." * 60, timestamp=self.clock.now_ms())
            self.clock.advance(100)
        log.flush()
        return values_of(log)

    def expire(self) -> int:
        return self.log.delete_old_segments(self.clock.now_ms(), self.log.end_offset)

    def archived(self) -> dict[int, bytes]:
        found = {}
        if self.files.exists(TARGET):
            for segment in archived_segments(self.files, TARGET):
                file = self.files.open(segment.path)
                data = file.read(segment.size, 0)
                for position, _ in iter_headers(data):
                    found |= {record.offset: record.value or b"" for record in read_records(data, position)}
        return found


def test_what_retention_lets_go_is_in_the_archive_and_nowhere_else() -> None:
    world = World()
    written = world.fill()
    assert world.expire() >= 2
    assert world.archive.take(world.log) >= 2

    assert values_of(world.log) | world.archived() == written
    assert not values_of(world.log).keys() & world.archived().keys()
    assert not world.log.awaiting_archive
    assert not [entry for entry in world.files.list(world.log.directory) if entry.name.endswith(".archive")]


def test_what_was_deleted_on_purpose_is_not_archived_and_does_not_come_back() -> None:
    world = World()
    written = world.fill()
    second = world.log.segments[1].base_offset
    world.log.advance_start_offset(Offset(second + 1))
    world.expire()
    world.archive.take(world.log)

    first, *_ = archived_segments(world.files, TARGET)
    assert first.first_offset == second + 1
    restored = restore(
        world.files, world.clock, archived_segments(world.files, TARGET), PARTITION, f"/data/back-0{RESTORED_SUFFIX}"
    )
    assert restored.start_offset == second + 1
    assert set(world.archived()) <= set(written)


def test_without_the_setting_nothing_is_set_aside() -> None:
    world = World()
    world.fill()
    world.log.configure(LogConfig(segment_bytes=500, retention_ms=1000))
    assert world.expire() >= 2
    assert world.archive.take(world.log) == 0


def test_whatever_operation_is_the_last_one_nothing_is_lost_between_log_and_archive() -> None:
    world = World()
    world.fill()
    before = world.files.operations
    world.expire()
    world.archive.take(world.log)
    operations = world.files.operations - before
    assert operations > 15

    for crash_at in range(1, operations + 1):
        for seed in range(6):
            world = World(seed * 1009 + crash_at)
            written = world.fill()
            world.files.crash_at = world.files.operations + crash_at
            with contextlib.suppress(SimulatedCrash):
                world.expire()
                world.archive.take(world.log)
            world.files.crash()
            world.open()
            world.log.assign_topic_id(TOPIC_ID)  # As a broker does from the metadata.
            world.archive.take(world.log)  # What waited goes with the next look.
            assert values_of(world.log) | world.archived() == written, (crash_at, seed)


def test_an_archive_on_another_file_system_gets_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = RealFiles.rename

    def rename_within(self: RealFiles, source: str, target: str) -> None:
        if ("/archive/" in source) != ("/archive/" in target):
            raise OSError(errno.EXDEV, "another file system", source)
        rename(self, source, target)

    monkeypatch.setattr(RealFiles, "rename", rename_within)
    directories = LogDirectories([str(tmp_path / "data")], RealFiles(), SimulatedClock(NOON_MS))
    directories.load(lambda _: CONFIG)
    log = directories.create(PARTITION, CONFIG, TOPIC_ID)
    for number in range(20):
        append(log, b"%d" % number + b"." * 60, timestamp=NOON_MS - 100_000)
    expected = {path.name: path.read_bytes() for path in Path(log.directory).glob("*.log")}
    deleted = log.delete_old_segments(NOON_MS, log.end_offset)

    assert Archive(RealFiles(), str(tmp_path / "archive")).take(log) == deleted
    moved = {path.name: path.read_bytes() for path in (tmp_path / "archive").rglob("*.log")}
    assert moved == {name: expected[name] for name in sorted(expected)[:deleted]}
    assert not list(Path(log.directory).glob("*.archive"))


def test_an_archive_that_refuses_leaves_the_files_where_they_wait() -> None:
    world = World()
    written = world.fill()
    world.expire()
    world.files.dead_path = "/archive"
    with pytest.raises(OSError, match="Input/output error"):
        world.archive.take(world.log)
    world.files.dead_path = None
    world.directories.close()
    world.open()
    assert world.archive.take(world.log) >= 2
    assert values_of(world.log) | world.archived() == written


def test_a_restored_log_has_the_offsets_times_and_epochs_it_had() -> None:
    world = World()
    written = world.fill()
    batch = batch_of([b"of the next epoch"], timestamp=world.clock.now_ms())
    stage(world.log, batch, epoch=3)
    world.log.write_staged()
    world.log.roll()
    world.clock.advance(10_000)
    append(world.log, b"young", epoch=3, timestamp=world.clock.now_ms())
    world.expire()
    world.archive.take(world.log)

    folder = f"/data/back-0{RESTORED_SUFFIX}"
    restored = restore(world.files, world.clock, archived_segments(world.files, TARGET), PARTITION, folder)
    directories = LogDirectories(["/data"], world.files, world.clock)
    world.directories.close()
    world.files.rename(folder, "/data/back-0")
    directories.load(lambda _: CONFIG)
    (back,) = [log for partition, log in directories.partitions().items() if partition.topic == "back"]

    assert back.is_read_only
    assert restored.missing == ()
    assert values_of(back) == written | {20: b"of the next epoch"}
    assert list(back.epochs.entries) == [(0, 0), (3, 20)]
    assert back.offset_for_timestamp(NOON_MS + 500) == (NOON_MS + 500, 5)
    assert back.delete_old_segments(NOON_MS * 2, back.end_offset) == 0, "nothing of it expires"


def test_what_two_leaders_archived_is_restored_once() -> None:
    world = World()
    written = world.fill()
    world.expire()
    world.archive.take(world.log)
    first, second, *_ = archived_segments(world.files, TARGET)
    # Another leader had other segments: one of them begins in the middle of the first and holds all of the second.
    file = world.files.open(first.path)
    data = file.read(first.size, 0)
    position = [at for at, _ in iter_headers(data)][2]
    other = world.files.open(f"{TARGET}/{2:020d}.log", create=True)
    more = world.files.open(second.path).read(second.size, 0)
    other.write([data[position:], more], 0)

    restored = restore(
        world.files, world.clock, archived_segments(world.files, TARGET), PARTITION, f"/data/back-0{RESTORED_SUFFIX}"
    )
    assert restored.bytes < sum(segment.size for segment in archived_segments(world.files, TARGET))
    assert restored.end_offset == max(world.archived()) + 1
    assert restored.missing == ()
    assert set(world.archived()) <= set(written)


def test_a_damaged_archive_is_refused_and_a_missing_part_is_said() -> None:
    world = World()
    world.fill()
    world.expire()
    world.archive.take(world.log)
    segments = archived_segments(world.files, TARGET)
    middle = segments[1]
    without = [segment for segment in segments if segment is not middle]
    restored = restore(world.files, world.clock, without, PARTITION, f"/data/a-0{RESTORED_SUFFIX}")
    assert restored.missing == ((middle.first_offset, segments[2].first_offset),)

    world.files.open(middle.path).write([b"\xff"], 70)
    with pytest.raises(CorruptLog):
        restore(world.files, world.clock, segments, PARTITION, f"/data/b-0{RESTORED_SUFFIX}")
