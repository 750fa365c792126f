"""The compiled table of keys against a dict: the same records stay, and broken bytes break nothing."""

from __future__ import annotations

import importlib.util
from array import array
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.log.key_dict import KeyDict
from tidelog.log.key_offsets import KeyOffsets
from tidelog.log.key_table import KeyTable
from tidelog.log.record_lot import RecordLot, Remaining
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import Offset
from tidelog.wire.batch import HEADER_BYTES, BatchHeader, read_header
from tidelog.wire.compression import Compression
from tidelog.wire.keys import kernel
from tidelog.wire.keys.compiled import COMPILED
from tidelog.wire.keys.rebase import rebase
from tidelog.wire.records import Record, build_batch, read_records, rebuild_batch, seal_batch


def load_uncompiled() -> Any:
    """The kernel as the plain Python that it also is: an index out of range raises there."""
    path = Path(kernel.__file__).with_name("kernel.py")
    spec = importlib.util.spec_from_file_location("uncompiled_keys_kernel", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert not module.COMPILED
    return module


UNCOMPILED = load_uncompiled()
WAYS = [pytest.param(UNCOMPILED, id="as it is")] + ([pytest.param(kernel, id="compiled")] if COMPILED else [])

# Few enough that they come again, of all lengths around the words of the hash and the ends of varints, and null.
keys = st.none() | st.integers(0, 5).map(b"key-%d".__mod__) | st.integers(0, 140).map(bytes) | st.binary(max_size=9)
values = st.none() | st.binary(max_size=3) | st.just(bytes(200))
headers = st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2).map(tuple)
timestamps = st.integers(0, 2**41) | st.integers(2**40, 2**40 + 100)
records = st.builds(Record, st.just(0), timestamps, keys, values, headers)
batches_of_records = st.lists(st.lists(records, min_size=1, max_size=6), min_size=1, max_size=8)

Batch = tuple[BatchHeader, memoryview]


def made(batches: Sequence[Sequence[Record]], codec: Compression, first: int) -> list[Batch]:
    bases = accumulate((len(batch) + index % 2 for index, batch in enumerate(batches)), initial=first)
    data = [
        build_batch(batch, base_offset=Offset(base), compression=codec if index % 3 else Compression.NONE)
        for index, (batch, base) in enumerate(zip(batches, bases, strict=False))
    ]
    return [(read_header(one), memoryview(one)) for one in data]


def lots(batches: Sequence[Batch], cut: int, **how: bool) -> Iterator[RecordLot]:
    for first, end in pairwise((0, min(cut, len(batches)), len(batches))):
        lot = RecordLot()
        for header, batch in batches[first:end]:
            lot.add(header, batch, **how)
        yield lot


def what_stays(of: KeyOffsets, noted: Sequence[Batch], asked: Sequence[Batch], cut: int) -> list[Remaining]:
    for lot in lots(noted, cut):
        of.note(lot)
    of.complete()
    found: list[Remaining] = []
    for how in ({"keeps_tombstones": True}, {"keeps_tombstones": False}):
        found += [one for lot in lots(asked, cut, **how) for one in of.keep(lot)]
    for header, _ in noted:
        of.is_any_newest(header.base_offset, header.last_offset)
        found += [one for lot in lots(noted, cut, is_noted=True) for one in of.keep(lot)]
    return [one._replace(records=bytes(one.records)) for one in found]


@pytest.mark.req("P3")
@pytest.mark.parametrize("using", WAYS)
@settings(deadline=None, max_examples=120)
@given(
    before=batches_of_records,
    batches=batches_of_records,
    codec=st.sampled_from(Compression),
    first=st.sampled_from([0, 1, 7, 2**31, 2**40]),
    cut=st.integers(0, 8),
    rows_max=st.integers(1, 9),
    marks_max=st.sampled_from([8, 16, 64, 4096]),
)
def test_a_table_keeps_what_a_dict_keeps(
    using: Any,
    before: list[list[Record]],
    batches: list[list[Record]],
    codec: Compression,
    first: int,
    cut: int,
    rows_max: int,
    marks_max: int,
) -> None:
    old = made(before, codec, first)
    new = made(batches, codec, first + 100)
    keys_max = sum(map(len, batches))
    table = KeyTable(keys_max, rows_max=rows_max, marks_max=marks_max, using=using)
    assert what_stays(table, new, old, cut) == what_stays(KeyDict(keys_max), new, old, cut)
    assert table.has_room(keys_max) == all(record.key is None for batch in batches for record in batch)


@pytest.mark.parametrize("using", WAYS)
@settings(deadline=None, max_examples=300)
@given(
    batch=st.lists(records, min_size=1, max_size=4),
    changes=st.lists(st.tuples(st.integers(0), st.integers(0, 255)), min_size=1, max_size=6),
    count=st.integers(-1, 6),
)
def test_damaged_records_are_refused_or_understood(
    using: Any, batch: list[Record], changes: list[tuple[int, int]], count: int
) -> None:
    damaged = bytearray(build_batch(batch))
    for place, byte in changes:
        damaged[HEADER_BYTES + place % (len(damaged) - HEADER_BYTES)] = byte
    header = msgspec.structs.replace(read_header(damaged), records_count=count)
    for step in ("note", "keep"):
        table = KeyTable(100, rows_max=2, marks_max=64, using=using)
        try:
            lot = RecordLot()
            lot.add(header, memoryview(damaged), is_noted=True)
            table.is_any_newest(0, 5)
            for one in (table.keep(lot) if step == "keep" else []) or []:
                assert len(one.records) <= len(damaged)
            if step == "note":
                table.note(lot)
        except ProtocolError as error:
            assert error.code == ErrorCode.INVALID_RECORD
        else:
            continue
        with pytest.raises(ProtocolError):
            found = read_records(seal_batch(header, damaged[HEADER_BYTES:]))
            # Only the table minds an offset before that of its batch.
            if any(record.offset < 0 for record in found):
                raise ProtocolError(ErrorCode.INVALID_RECORD, "")


@settings(deadline=None, max_examples=200)
@given(
    batch=st.lists(records, min_size=1, max_size=5),
    base_timestamp=st.integers(0, 2**42),
    append_time=st.none() | st.integers(0, 2**41),
)
def test_records_count_from_another_time_and_are_otherwise_the_same(
    batch: list[Record], base_timestamp: int, append_time: int | None
) -> None:
    data = build_batch(batch, log_append_time_ms=append_time)
    header = read_header(data)
    rebuilt = rebuild_batch(header, read_records(data), delete_horizon_ms=base_timestamp)
    for compiled in {False, COMPILED}:
        found = rebase(memoryview(data)[HEADER_BYTES:], len(batch), header, base_timestamp, compiled=compiled)
        assert bytes(found) == rebuilt[HEADER_BYTES:]
    out = bytearray(len(data) * 20)
    shift_ms = base_timestamp - (header.base_timestamp if append_time is None else append_time)
    size = UNCOMPILED.rebase(data[HEADER_BYTES:], shift_ms, append_time is not None, out)
    assert out[:size] == rebuilt[HEADER_BYTES:]


# Of the authors' test vectors for SipHash-2-4 with 128 bits: the key is 00 01 … 0f, a message 00 01 … of that length.
SIPHASH_VECTORS = {
    0: "a3817f04ba25a8e66df67214c7550293",
    1: "da87c1d86b99af44347659119b22fc45",
    2: "8177228da4a45dc7fca38bdef60affe4",
    8: "3b62a9ba6258f5610f83e264f31497b4",
    15: "5493e99933b0a8117e08ec0f97cfc3d9",
}


@pytest.mark.parametrize("using", WAYS)
@pytest.mark.parametrize(("length", "expected"), SIPHASH_VECTORS.items())
def test_keys_are_hashed_as_the_authors_of_siphash_say(using: Any, length: int, expected: str) -> None:
    table = KeyTable(1, using=using, secret=bytes(range(16)))
    lot = RecordLot()
    data = build_batch([Record(0, 0, bytes(range(length)), b"")])
    lot.add(read_header(data), memoryview(data))
    table.note(lot)
    (found,) = table.hashes()
    assert found == bytes.fromhex(expected)


@pytest.mark.parametrize("using", WAYS)
def test_a_full_table_still_finds_every_key(using: Any) -> None:
    count = 2000
    batch = [Record(0, 0, b"%d" % number, b"v") for number in range(count)]
    data = build_batch([*batch, *batch[: count // 2]])
    table = KeyTable(count + count // 2, using=using)
    lot = RecordLot()
    lot.add(read_header(data), memoryview(data))
    table.note(lot)
    assert table.has_room(count // 2) and not table.has_room(count // 2 + 1)
    (kept,) = table.keep(lot)
    stays = [*batch[count // 2 :], *batch[: count // 2]]
    expected = [record.key for record in stays]
    plain = msgspec.structs.replace(read_header(data), records_count=kept.records_count)
    assert [record.key for record in read_records(seal_batch(plain, kept.records))] == expected


def test_keys_that_all_begin_at_the_last_slot_are_found_at_the_first_ones() -> None:
    slots, rows = 5, 4
    table = array("Q", bytes(8 * kernel.SLOT_NUMBERS * slots))
    hashes = array("Q", [number for row in range(rows) for number in (2**64 - 1, row)])
    located = array("q", bytes(8 * kernel.ROW_NUMBERS * rows))
    for row in range(rows):
        located[kernel.ROW_NUMBERS * row + 2] = row
    assert UNCOMPILED.insert(table, slots, located, rows, hashes, 0) == rows
    assert [table[kernel.SLOT_NUMBERS * slot + 1] for slot in range(slots)] == [1, 2, 3, 0, 0]
    assert table[kernel.SLOT_NUMBERS * 4 + 2] == 1
    assert UNCOMPILED.insert(table, slots, located, rows, hashes, rows) == rows
