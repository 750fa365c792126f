from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tidelog.env import files as files_module
from tidelog.env.files import GATHERED_BUFFERS_MAX, RealFiles


def test_any_number_of_buffers_is_written_one_after_the_other(tmp_path: Path) -> None:
    for count in (1, 2, GATHERED_BUFFERS_MAX, GATHERED_BUFFERS_MAX + 1, 3 * GATHERED_BUFFERS_MAX + 5):
        buffers = [memoryview(b"%07d|" % number) for number in range(count)]
        file = RealFiles().open(str(tmp_path / str(count)), create=True)
        file.write([b"head"], 0)
        file.write(buffers, 4)

        assert (tmp_path / str(count)).read_bytes() == b"head" + b"".join(buffers)
        file.close()


def test_a_write_that_the_system_cuts_short_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel may take a part only (a signal, a nearly full disk); here it takes at most 10 bytes."""
    real_pwrite = os.pwrite
    monkeypatch.setattr(files_module.os, "pwrite", lambda fd, data, at: real_pwrite(fd, bytes(data)[:10], at))
    monkeypatch.setattr(files_module.os, "pwritev", lambda fd, buffers, at: real_pwrite(fd, b"".join(buffers)[:10], at))
    file = RealFiles().open(str(tmp_path / "x"), create=True)
    data = [b"%03d," % number for number in range(100)]
    file.write(data, 0)
    file.write([b"one single buffer of more than ten bytes"], 400)

    assert (tmp_path / "x").read_bytes() == b"".join(data) + b"one single buffer of more than ten bytes"


def test_a_full_disk_is_raised_with_its_number() -> None:
    if not Path("/dev/full").exists():
        pytest.fail("this system has no /dev/full")
    file = RealFiles().open("/dev/full")
    with pytest.raises(OSError) as full:
        file.write([b"x", b"y"], 0)
    assert full.value.errno == errno.ENOSPC


def test_a_read_gives_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"0123456789")
    file = RealFiles().open(str(tmp_path / "x"))

    assert file.read(4, 3) == b"3456"
    assert file.read(100, 8) == b"89"
    assert file.read(5, 10) == b""
    assert file.size() == 10
    file.truncate(3)
    assert file.size() == 3
    file.sync()


def test_a_file_is_closed_with_its_last_holder(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"abc")
    file = RealFiles().open(str(tmp_path / "x"))
    descriptor = file.fileno()
    other = file
    del file
    assert other.read(3, 0) == b"abc"
    del other

    with pytest.raises(OSError):
        os.fstat(descriptor)


def test_directories_are_made_listed_synced_and_removed(tmp_path: Path) -> None:
    files = RealFiles()
    folder = str(tmp_path / "a" / "b")
    files.make_directory(folder)
    files.make_directory(folder)
    files.open(f"{folder}/x", create=True).close()
    files.rename(f"{folder}/x", f"{folder}/y")
    files.sync_directory(folder)

    assert files.list(folder) == [("y", False)]
    assert files.list(str(tmp_path / "a")) == [("b", True)]
    assert files.exists(folder)
    assert files.size(f"{folder}/y") == 0
    assert files.modified_ms(f"{folder}/y") > 1_600_000_000_000
    files.remove(f"{folder}/y")
    files.remove_directory(folder)
    assert not files.exists(folder)
    assert 0 < files.free_bytes(str(tmp_path)) <= files.total_bytes(str(tmp_path))
    with pytest.raises(FileNotFoundError):
        files.open(f"{folder}/x")
