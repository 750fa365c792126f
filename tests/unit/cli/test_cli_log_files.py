"""Files of a partition as they lie on disk."""

from __future__ import annotations

from pathlib import Path
from struct import pack

import pytest

from tidelog.cli.failures import BadInput
from tidelog.cli.kafka.dump_log import main as dump_log
from tidelog.cli.log_files import LogFile, base_offset_of, offset_entries, time_entries
from tidelog.model.ids import Offset
from tidelog.wire.records import Record, build_batch


def batch(offset: int, *values: bytes) -> bytes:
    return build_batch([Record(0, 1000 + offset, b"k", value) for value in values], base_offset=Offset(offset))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "00000000000000000005.log"
    path.write_bytes(batch(5, b"a", b"b") + batch(7, b"c"))
    return path


def test_every_batch_is_found_with_its_place(log: Path) -> None:
    found = [
        (stored.position, stored.header.base_offset, stored.is_valid, len(stored.records()))
        for stored in LogFile(log).batches()
    ]
    assert found == [(0, 5, True, 2), (len(batch(5, b"a", b"b")), 7, True, 1)]


def test_damage_is_shown_and_read_over(log: Path) -> None:
    content = bytearray(log.read_bytes())
    content[-1] ^= 1
    log.write_bytes(bytes(content) + b"half a batch")
    stored = LogFile(log)
    assert [part.is_valid for part in stored.batches()] == [True, False]
    assert stored.trailing_bytes == len(b"half a batch")


def test_an_empty_file_and_a_limit_are_fine(log: Path, tmp_path: Path) -> None:
    empty = tmp_path / "00000000000000000000.log"
    empty.touch()
    assert list(LogFile(empty).batches()) == []
    limited = LogFile(log, bytes_max=100)
    assert len(list(limited.batches())) == 1
    assert limited.trailing_bytes == 0


def test_index_entries_end_where_the_reserved_space_begins(tmp_path: Path) -> None:
    index = tmp_path / "00000000000000000005.index"
    index.write_bytes(pack(">iiii", 1, 0, 2, 81) + bytes(64))
    assert offset_entries(index) == [(6, 0), (7, 81)]
    times = tmp_path / "00000000000000000005.timeindex"
    times.write_bytes(pack(">qiqi", 1005, 1, 1007, 2) + bytes(120) + b"x")
    assert time_entries(times) == [(1005, 6), (1007, 7)]


def test_a_file_that_is_not_named_after_an_offset_is_refused() -> None:
    with pytest.raises(BadInput, match="not named after an offset"):
        base_offset_of(Path("leader-epoch-checkpoint"))


def test_the_dump_tells_what_does_not_fit_together(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log.with_suffix(".index").write_bytes(pack(">ii", 2, 0))
    log.with_suffix(".timeindex").write_bytes(pack(">qiqi", 4, 1, 3, 2))
    files = ",".join(str(log.with_suffix(suffix)) for suffix in (".index", ".timeindex"))
    assert dump_log(["--files", files]) == 0
    captured = capsys.readouterr()
    assert "offset: 7 position: 0" in captured.out
    assert "Index offset: 7, log offset: 6" in captured.err
    assert "Index timestamp: 4, log timestamp: 1005" in captured.err
    assert "Index timestamp: 3, Previously indexed timestamp: 4" in captured.err


def test_gaps_between_records_and_bytes_at_the_end_are_told(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log.write_bytes(batch(5, b"a") + batch(9, b"b") + b"rest")
    assert dump_log(["--files", str(log), "--deep-iteration"]) == 0
    captured = capsys.readouterr()
    assert "5 is followed by 9" in captured.err
    assert "Found 4 invalid bytes at the end" in captured.out
