from __future__ import annotations

import errno
import subprocess
import sys
import time
from pathlib import Path
from uuid import UUID

import pytest

from harness.logs import NOON_MS, append, values_of
from tidelog.env.clock import SimulatedClock
from tidelog.env.files import RealFiles
from tidelog.env.simulated_files import SimulatedFiles
from tidelog.log.config import LogConfig
from tidelog.log.directories import DirectoryInUse, LogDirectories, WrongOwner
from tidelog.log.directory import CLEAN_SHUTDOWN_FILE, delete_folder_name, partition_of
from tidelog.log.errors import LogFailed
from tidelog.model.ids import NodeId, Offset, PartitionIndex, TopicName, TopicPartition

CONFIG = LogConfig(segment_bytes=2000)


def partition(number: int, topic: str = "chat.messages") -> TopicPartition:
    return TopicPartition(TopicName(topic), PartitionIndex(number))


@pytest.fixture
def clock() -> SimulatedClock:
    return SimulatedClock(NOON_MS)


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    return [str(tmp_path / name) for name in ("one", "two", "three")]


def opened(paths: list[str], clock: SimulatedClock) -> LogDirectories:
    directories = LogDirectories(paths, RealFiles(), clock)
    directories.load(lambda _: CONFIG)
    return directories


@pytest.mark.req("B1", "B2", "C11")
def test_partitions_are_spread_over_the_directories_as_folders_of_topic_and_number(
    paths: list[str], clock: SimulatedClock
) -> None:
    directories = opened(paths, clock)
    for number in range(6):
        directories.create(partition(number), CONFIG, UUID(int=9))

    folders = [sorted(entry.name for entry in Path(path).iterdir() if entry.is_dir()) for path in paths]
    assert [len(names) for names in folders] == [2, 2, 2]
    assert sorted(name for names in folders for name in names) == [f"chat.messages-{number}" for number in range(6)]
    directories.close()


def test_all_partitions_are_found_again_after_a_clean_stop(paths: list[str], clock: SimulatedClock) -> None:
    directories = opened(paths, clock)
    for number in range(5):
        append(directories.create(partition(number), CONFIG, UUID(int=9)), b"%d" % number)
        directories.high_watermarks[partition(number)] = Offset(1)
    directories.close()
    assert all(Path(path, ".kafka_cleanshutdown").exists() for path in paths)

    again = opened(paths, clock)
    assert all(directory.was_clean for directory in again.directories)
    assert not any(Path(path, ".kafka_cleanshutdown").exists() for path in paths)
    assert again.high_watermarks == dict.fromkeys([partition(number) for number in range(5)], 1)
    for number in range(5):
        log = again.get(partition(number))
        assert log is not None
        assert log.topic_id == UUID(int=9)
        assert values_of(log) == {0: b"%d" % number}
    again.close()


@pytest.mark.req("B9", "C9")
def test_many_partitions_are_closed_at_a_time_with_few_files_open(paths: list[str], clock: SimulatedClock) -> None:
    directories = LogDirectories(paths, RealFiles(), clock, open_files_max=20, close_threads=8)
    directories.load(lambda _: CONFIG)
    for number in range(60):
        append(directories.create(partition(number), CONFIG), b"%d" % number)
    directories.close()
    assert not directories.offline()

    again = opened(paths, clock)
    assert all(directory.was_clean for directory in again.directories)
    assert [values_of(again.partitions()[partition(number)]) for number in range(60)] == [
        {0: b"%d" % number} for number in range(60)
    ]


def test_a_sync_that_fails_among_many_makes_the_stop_unclean(paths: list[str], clock: SimulatedClock) -> None:
    class BadFolder(RealFiles):
        def sync_directory(self, path: str) -> None:
            if path.endswith("-7"):
                raise OSError(errno.EIO, "planted")
            super().sync_directory(path)

    directories = LogDirectories(paths[:1], BadFolder(), clock, close_threads=8)
    directories.load(lambda _: CONFIG)
    for number in range(20):
        append(directories.create(partition(number), CONFIG), b"a")
    directories.close()
    assert directories.offline()
    assert not Path(paths[0], CLEAN_SHUTDOWN_FILE).exists()


def test_after_a_crash_the_checkpoint_says_from_where_to_recover(paths: list[str], clock: SimulatedClock) -> None:
    directories = opened(paths[:1], clock)
    log = directories.create(partition(0), CONFIG)
    for _ in range(10):
        append(log, b"x" * 500)
    log.flush()
    directories.checkpoint()
    directories.abandon()
    text = Path(paths[0], "recovery-point-offset-checkpoint").read_text()
    assert text == "0\n1\nchat.messages 0 9\n", "within the active segment, which is checked as a whole"

    again = opened(paths[:1], clock)
    assert not again.directories[0].was_clean
    log = again.partitions()[partition(0)]
    assert log.recovery_point == log.active_segment.base_offset
    assert len(values_of(log)) == 10
    again.close()


def test_the_start_after_deleted_records_survives_a_restart(paths: list[str], clock: SimulatedClock) -> None:
    directories = opened(paths[:1], clock)
    log = directories.create(partition(0), CONFIG)
    for _ in range(10):
        append(log, b"x")
    log.advance_start_offset(Offset(4))
    directories.checkpoint()
    assert Path(paths[0], "log-start-offset-checkpoint").read_text() == "0\n1\nchat.messages 0 4\n"
    directories.abandon()

    again = opened(paths[:1], clock)
    assert again.partitions()[partition(0)].start_offset == 4
    again.close()


def test_a_deleted_partition_is_gone_at_once_and_its_files_after_the_delay(
    paths: list[str], clock: SimulatedClock
) -> None:
    directories = opened(paths[:1], clock)
    log = directories.create(partition(0), CONFIG, UUID(int=1))
    append(log, b"old")
    part = log.read(Offset(0), 1000, log.end_offset)
    directories.delete(partition(0))
    assert directories.get(partition(0)) is None
    folders = [entry.name for entry in Path(paths[0]).iterdir() if entry.is_dir()]
    assert len(folders) == 1
    assert folders[0].startswith("chat.messages-0.")
    assert folders[0].endswith("-delete")

    again = directories.create(partition(0), CONFIG, UUID(int=2))
    append(again, b"new")
    assert part is not None
    assert b"old" in part.read()
    log.flush()  # A sync that was under way finds nothing to do, and is no failure of the disk.
    directories.reap(clock.now_ms() + CONFIG.file_delete_delay_ms)
    assert [entry.name for entry in Path(paths[0]).iterdir() if entry.is_dir()] == ["chat.messages-0"]
    assert values_of(again) == {0: b"new"}
    assert not directories.offline()
    directories.close()


def test_a_partition_that_was_being_deleted_is_not_loaded_but_removed(paths: list[str], clock: SimulatedClock) -> None:
    directories = opened(paths[:1], clock)
    append(directories.create(partition(0), CONFIG), b"x")
    directories.delete(partition(0))
    directories.abandon()

    again = opened(paths[:1], clock)
    assert again.partitions() == {}
    assert not [entry for entry in Path(paths[0]).iterdir() if entry.is_dir()]
    again.close()


def test_the_name_of_a_deleted_folder_fits_into_a_file_name() -> None:
    name = delete_folder_name(partition(12, "t" * 249), UUID(int=7))

    assert len(name) == 255
    assert name.endswith(f"-12.{UUID(int=7).hex}-delete")
    assert partition_of(name) is None


def test_folders_that_are_no_partitions_are_left_alone(paths: list[str], clock: SimulatedClock) -> None:
    for name in ("lost+found", "notes", "chat.messages-x", "__cluster_metadata-0"):
        Path(paths[0], name).mkdir(parents=True)
    directories = opened(paths[:1], clock)

    assert directories.partitions() == {}
    assert len([entry for entry in Path(paths[0]).iterdir() if entry.is_dir()]) == 4
    directories.close()


@pytest.mark.req("C11")
def test_a_directory_that_fails_goes_offline_while_the_others_go_on(clock: SimulatedClock) -> None:
    files = SimulatedFiles()
    directories = LogDirectories(["/one", "/two"], files, clock)
    directories.load(lambda _: CONFIG)
    logs = [directories.create(partition(number), CONFIG) for number in range(4)]
    for log in logs:
        append(log, b"before")
    files.dead_path = "/one"

    with pytest.raises(LogFailed) as failed:
        append(directories.partitions()[partition(0)], b"lost")
    assert failed.value.cause.errno == errno.EIO
    directories.checkpoint()
    assert [directory.path for directory in directories.offline()] == ["/one"]
    assert directories.get(partition(0)) is None
    survivors = directories.partitions()
    assert len(survivors) == 2
    for log in survivors.values():
        append(log, b"after")
    directories.create(partition(9), CONFIG)
    directories.close()

    again = LogDirectories(["/one", "/two"], files, clock)
    again.load(lambda _: CONFIG)
    assert [directory.path for directory in again.offline()] == ["/one"]
    assert again.directories[1].was_clean
    assert all(
        values_of(log) == {0: b"before", 1: b"after"} for tp, log in again.partitions().items() if tp.partition < 9
    )


def test_when_all_directories_are_offline_nothing_can_be_created(clock: SimulatedClock) -> None:
    files = SimulatedFiles()
    files.dead_path = "/"
    directories = LogDirectories(["/one"], files, clock)
    directories.load(lambda _: CONFIG)

    with pytest.raises(LogFailed):
        directories.create(partition(0), CONFIG)


def test_one_unreadable_partition_does_not_stop_the_others(paths: list[str], clock: SimulatedClock) -> None:
    directories = opened(paths[:1], clock)
    for number in range(2):
        append(directories.create(partition(number), CONFIG), b"x")
    directories.close()
    segment = Path(paths[0], "chat.messages-0", "00000000000000000000.log")
    segment.write_bytes(bytes(40))

    again = opened(paths[:1], clock)
    assert set(again.directories[0].broken) == {partition(0)}
    assert set(again.partitions()) == {partition(1)}
    again.close()


def test_a_directory_belongs_to_one_node_of_one_cluster(paths: list[str], clock: SimulatedClock) -> None:
    directories = opened(paths[:2], clock)
    directories.claim("the-cluster", NodeId(1))
    directories.close()

    again = opened(paths, clock)
    again.claim("the-cluster", NodeId(1))
    owners = [directory.owner for directory in again.directories]
    assert len({owner.directory_id for owner in owners if owner}) == 3
    with pytest.raises(WrongOwner):
        again.claim("the-cluster", NodeId(2))
    with pytest.raises(WrongOwner):
        again.claim("another", NodeId(1))
    again.close()


def test_two_brokers_never_share_a_directory(paths: list[str], clock: SimulatedClock) -> None:
    directories = opened(paths[:1], clock)
    with pytest.raises(DirectoryInUse):
        opened(paths[:1], clock)
    program = (
        "import sys; from tidelog.env.files import RealFiles; from tidelog.env.clock import RealClock;"
        "from tidelog.log.directories import *; from tidelog.log.config import LogConfig\n"
        "try: LogDirectories(sys.argv[1:], RealFiles(), RealClock()).load(lambda _: LogConfig())\n"
        "except DirectoryInUse: sys.exit(7)"
    )
    other = subprocess.run([sys.executable, "-c", program, paths[0]])
    assert other.returncode == 7
    directories.close()
    opened(paths[:1], clock).close()


def test_truncation_lowers_the_recovery_point_on_disk_first(clock: SimulatedClock) -> None:
    files = SimulatedFiles(3)
    directories = LogDirectories(["/data"], files, clock)
    directories.load(lambda _: CONFIG)
    log = directories.create(partition(0), CONFIG)
    for _ in range(20):
        append(log, b"x" * 300)
    log.flush()
    directories.checkpoint()

    directories.truncate({partition(0): Offset(5)})
    append(log, b"new" * 200)

    files.crash()
    again = LogDirectories(["/data"], files, clock)
    again.load(lambda _: CONFIG)
    found = values_of(again.partitions()[partition(0)])
    assert {offset: found[offset] for offset in range(5)} == dict.fromkeys(range(5), b"x" * 300)
    assert len(found) <= 6
    assert found.get(5, b"new" * 200) == b"new" * 200


@pytest.mark.req("C10")
def test_a_thousand_partitions_are_opened_within_a_second_of_one_core(tmp_path: Path) -> None:
    directories = LogDirectories([str(tmp_path)], RealFiles(), SimulatedClock(NOON_MS))
    directories.load(lambda _: LogConfig())
    for number in range(1000):
        directories.create(TopicPartition(TopicName("many"), PartitionIndex(number)), LogConfig())
    directories.abandon()
    (tmp_path / CLEAN_SHUTDOWN_FILE).write_text("{}")

    again = LogDirectories([str(tmp_path)], RealFiles(), SimulatedClock(NOON_MS))
    began = time.process_time()
    again.load(lambda _: LogConfig())
    seconds = time.process_time() - began

    assert len(again.partitions()) == 1000
    assert again.directories[0].was_clean
    assert seconds < 1
    again.abandon()
