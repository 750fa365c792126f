from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest

from tidelog.env.files import RealFiles
from tidelog.log.errors import CorruptLog
from tidelog.log.offset_index import OffsetIndex
from tidelog.log.time_index import TimeIndex
from tidelog.log.transaction_index import AbortedTransaction, TransactionIndex
from tidelog.model.ids import Offset, ProducerId

BASE = Offset(1000)


def offset_index(tmp_path: Path) -> OffsetIndex:
    return OffsetIndex(RealFiles(), str(tmp_path / "00000000000000001000.index"), BASE)


def reopened(index: OffsetIndex) -> OffsetIndex:
    return OffsetIndex(RealFiles(), index.path, BASE).on_disk()


@pytest.mark.req("B5")
def test_an_offset_index_is_a_file_of_big_endian_relative_offsets_and_positions(tmp_path: Path) -> None:
    index = offset_index(tmp_path)
    index.add(1007, 4200)
    assert index.add_rows([(1019, 8500, -1, 1000)]) == 2, "in memory alone"
    index.write_out()

    assert Path(index.path).read_bytes() == struct.pack(">iiii", 7, 4200, 19, 8500)
    assert index.add_rows([(1030, 12800, -1, 1000)]) == 1


@pytest.mark.req("B5", "B15")
@pytest.mark.parametrize("spacing", ["even", "uneven", "growing"])
def test_a_look_up_finds_the_last_entry_that_is_not_after_the_offset_in_memory_and_on_disk(
    tmp_path: Path, spacing: str
) -> None:
    rng = random.Random(7)
    index = offset_index(tmp_path)
    rows = []
    offset, position = 1000, 0
    for number in range(3000):
        offset += {"even": 10, "uneven": rng.choice([1, 1, 1, 5000]), "growing": 1 + number}[spacing]
        position += rng.randint(4097, 9000)
        rows.append((offset, position))
        index.add(offset, position)
        if number == 1700:
            index.unload()  # The first rows are on disk, the later ones in memory.
    index.write_out()

    probes = [rng.randrange(900, offset + 100) for _ in range(400)] + [row[0] for row in rows[::97]] + [1000, offset]
    for one in (index, reopened(index)):
        for probe in probes:
            expected = max((row for row in rows if row[0] <= probe), default=(0, 0))
            assert one.lookup(probe) == expected[1]
        for probe in [rng.randrange(0, position + 100) for _ in range(400)]:
            assert one.boundary_at_or_before(probe) == max((row[1] for row in rows if row[1] <= probe), default=0)


@pytest.mark.parametrize("reopen", [False, True])
def test_truncation_forgets_the_batch_that_holds_the_offset_and_later_ones(tmp_path: Path, reopen: bool) -> None:
    index = offset_index(tmp_path)
    for number in range(100):
        index.add(1009 + 10 * number, 100 * number)
    index.write_out()
    if reopen:
        index = reopened(index)
    index.add(2009, 10_000)

    for cut, left in ((2009, 100), (1509, 50), (1505, 50), (1000, 0)):
        index.truncate_to(cut)
        assert index.count == left
        assert index.lookup(10_000) == max(100 * (left - 1), 0)
    index.add(1001, 7)
    index.write_out()
    assert Path(index.path).read_bytes() == struct.pack(">ii", 1, 7)


def test_an_index_that_points_behind_its_log_or_is_cut_in_the_middle_is_corrupt(tmp_path: Path) -> None:
    index = offset_index(tmp_path)
    with pytest.raises(CorruptLog):
        reopened(index).check(log_size=100)
    index.add(1001, 500)
    index.write_out()
    index.check(log_size=501)
    with pytest.raises(CorruptLog):
        index.check(log_size=500)
    with Path(index.path).open("ab") as file:
        file.write(b"\0\0\0")
    with pytest.raises(CorruptLog):
        reopened(index).check(log_size=1000)


@pytest.mark.req("B6")
def test_a_time_index_keeps_only_growing_timestamps_and_finds_the_last_that_is_not_later(tmp_path: Path) -> None:
    index = TimeIndex(RealFiles(), str(tmp_path / "x.timeindex"), BASE)
    for timestamp, offset in ((50, 1003), (40, 1005), (50, 1007), (60, 1009)):
        index.add(timestamp, offset)
    index.write_out()

    assert Path(index.path).read_bytes() == struct.pack(">qiqi", 50, 3, 60, 9)
    for one in (index, TimeIndex(RealFiles(), index.path, BASE).on_disk()):
        assert one.newest() == (60, 1009)
        assert one.lookup(49) == (-1, 1000)
        assert one.lookup(50) == (50, 1003)
        assert one.lookup(59) == (50, 1003)
        assert one.lookup(1000) == (60, 1009)
    index.truncate_to(1009)
    assert index.newest() == (50, 1003)


def test_a_time_index_that_goes_back_is_corrupt(tmp_path: Path) -> None:
    path = tmp_path / "x.timeindex"
    path.write_bytes(struct.pack(">qiqi", 60, 3, 50, 9))

    with pytest.raises(CorruptLog):
        TimeIndex(RealFiles(), str(path), BASE).on_disk().check(log_size=100)


def test_aborted_transactions_are_found_by_the_offsets_they_span(tmp_path: Path) -> None:
    index = TransactionIndex(RealFiles(), str(tmp_path / "x.txnindex"))
    assert index.all() == []
    assert not (tmp_path / "x.txnindex").exists()
    first = AbortedTransaction(ProducerId(7), Offset(10), Offset(20), Offset(15))
    second = AbortedTransaction(ProducerId(8), Offset(15), Offset(30), Offset(31))
    index.add(first)
    index.add(second)

    assert (tmp_path / "x.txnindex").read_bytes()[:34] == struct.pack(">hqqqq", 0, 7, 10, 20, 15)
    assert index.overlapping(Offset(0), Offset(12)) == ([first], True)
    assert index.overlapping(Offset(0), Offset(40)) == ([first, second], False)
    assert index.overlapping(Offset(21), Offset(31)) == ([second], True)
    assert index.overlapping(Offset(31), Offset(40)) == ([], False)
    index.truncate_to(30)
    assert index.all() == [first]
    index.reset()
    assert index.all() == []
