from __future__ import annotations

import errno

import pytest

from tidelog.env.simulated_files import SECTOR_BYTES, SimulatedCrash, SimulatedFiles


def disk(seed: int = 0) -> SimulatedFiles:
    files = SimulatedFiles(seed)
    files.make_directory("/data")
    return files


def durable(files: SimulatedFiles, path: str, content: bytes) -> None:
    file = files.open(path, create=True)
    file.write([content], 0)
    file.sync()
    files.sync_directory(path.rpartition("/")[0])


def content(files: SimulatedFiles, path: str) -> bytes:
    file = files.open(path)
    return file.read(file.size(), 0)


def test_what_was_synced_is_there_after_a_crash() -> None:
    for seed in range(50):
        files = disk(seed)
        durable(files, "/data/x", b"synced")
        files.crash()
        assert content(files, "/data/x") == b"synced"


def test_what_was_not_synced_is_there_or_not_or_torn() -> None:
    seen = set()
    for seed in range(300):
        files = disk(seed)
        durable(files, "/data/x", b"")
        files.open("/data/x").write([b"a" * SECTOR_BYTES, b"b" * SECTOR_BYTES], 0)
        files.crash()
        seen.add(content(files, "/data/x"))

    assert b"" in seen
    assert b"a" * SECTOR_BYTES + b"b" * SECTOR_BYTES in seen
    assert bytes(SECTOR_BYTES) + b"b" * SECTOR_BYTES in seen, "the second sector without the first"
    assert len(seen) > 20


def test_later_writes_can_survive_without_earlier_ones() -> None:
    seen = set()
    for seed in range(200):
        files = disk(seed)
        durable(files, "/data/x", b"")
        for number in range(3):
            files.open("/data/x").write([b"%d" % number], number)
        files.crash()
        seen.add(content(files, "/data/x"))

    assert {b"", b"012", b"\0\0" + b"2"} <= seen


def test_names_that_were_not_synced_are_lost_from_the_newest_on() -> None:
    seen = set()
    for seed in range(100):
        files = disk(seed)
        files.sync_directory("/")
        for name in ("a", "b", "c"):
            files.open(f"/data/{name}", create=True)
        files.crash()
        seen.add("".join(sorted(entry.name for entry in files.list("/data"))))

    assert seen == {"", "a", "ab", "abc"}


def test_a_rename_without_a_sync_of_the_content_can_leave_an_empty_file() -> None:
    seen = set()
    for seed in range(200):
        files = disk(seed)
        durable(files, "/data/x", b"old")
        files.open("/data/x.tmp", create=True).write([b"new"], 0)
        files.rename("/data/x.tmp", "/data/x")
        files.sync_directory("/data")
        files.crash()
        seen.add(content(files, "/data/x"))

    assert b"old" not in seen
    assert {b"", b"new"} <= seen


def test_the_same_seed_gives_the_same_crash() -> None:
    def run() -> bytes:
        files = disk(42)
        durable(files, "/data/x", b"begin")
        for number in range(20):
            files.open("/data/x").write([b"%d" % number * 300], 5 + 400 * number)
        files.crash()
        return content(files, "/data/x")

    assert run() == run()


def test_files_that_were_open_are_useless_after_a_crash_and_locks_are_gone() -> None:
    files = disk()
    files.sync_directory("/")
    file = files.open("/data/x", create=True)
    files.lock("/data/.lock")
    with pytest.raises(BlockingIOError):
        files.lock("/data/.lock")
    files.crash()

    with pytest.raises(OSError):
        file.size()
    files.lock("/data/.lock")


def test_any_operation_can_be_made_to_fail_or_to_be_the_last() -> None:
    files = disk()
    file = files.open("/data/x", create=True)
    files.failures[files.operations + 2] = errno.EIO
    file.write([b"a"], 0)
    with pytest.raises(OSError) as failed:
        file.sync()
    assert failed.value.errno == errno.EIO
    file.sync()

    files.crash_at = files.operations + 1
    with pytest.raises(SimulatedCrash):
        file.truncate(0)


def test_a_full_disk_takes_what_fits_and_refuses_the_rest() -> None:
    files = disk()
    files.capacity_bytes = 10
    file = files.open("/data/x", create=True)
    file.write([b"123456"], 0)
    with pytest.raises(OSError) as full:
        file.write([b"789abc"], 6)

    assert full.value.errno == errno.ENOSPC
    assert file.size() == 10
    assert files.free_bytes("/data") == 0
    files.remove("/data/x")
    assert files.free_bytes("/data") == 10


def test_a_dead_disk_refuses_everything() -> None:
    files = disk()
    file = files.open("/data/x", create=True)
    files.dead_path = "/data"

    for operation in (
        lambda: file.write([b"x"], 0),
        lambda: file.sync(),
        lambda: files.open("/data/x"),
        lambda: files.list("/data"),
        lambda: files.rename("/data/x", "/data/y"),
    ):
        with pytest.raises(OSError):
            operation()


def test_a_directory_is_renamed_with_all_in_it() -> None:
    files = disk()
    files.make_directory("/data/a/b")
    durable(files, "/data/a/b/x", b"1")
    files.rename("/data/a", "/data/c")
    files.sync_directory("/data")
    files.crash()

    assert content(files, "/data/c/b/x") == b"1"
    with pytest.raises(OSError):
        files.remove_directory("/data/c")
