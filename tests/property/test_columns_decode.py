"""Columns against records: what `wire/records.py` reads, `wire/columns` reads, and refuses what it refuses."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import LeaderEpoch, Offset, PartitionIndex, ProducerEpoch, ProducerId, TopicName, TopicPartition
from tidelog.wire.batch import HEADER_BYTES, Buffer
from tidelog.wire.columns import kernel
from tidelog.wire.columns.decode import decode, decode_each
from tidelog.wire.columns.encode import Rows, encode
from tidelog.wire.columns.fields import COMPILED, KERNEL_REVISION
from tidelog.wire.columns.layout import ALL_COLUMNS
from tidelog.wire.columns.taken import wanted_numbers
from tidelog.wire.compression import Compression
from tidelog.wire.control import EndTransaction, build_end_transaction
from tidelog.wire.messages.fetch import AbortedTransaction
from tidelog.wire.records import Record, build_batch, read_records

INT64_MAX = 2**63 - 1
WAYS = [pytest.param(False, id="numpy")] + ([pytest.param(True, id="compiled")] if COMPILED else [])

contents = st.none() | st.binary(max_size=20) | st.binary(min_size=60, max_size=70) | st.just(bytes(9000))
headers = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3).map(tuple)
timestamps = st.integers(-1, 2**41) | st.sampled_from([0, 2**62])
records = st.builds(Record, st.just(0), timestamps, contents, contents, headers)
batches_of_records = st.lists(st.lists(records, min_size=1, max_size=8), min_size=1, max_size=5)


def rows_of(found: Any) -> list[tuple[Any, ...]]:
    """Rows as plain values, with -1 where there is no timestamp."""
    times = found.column("timestamp").cast(pa.int64()).fill_null(-1).to_pylist()
    lists = found.column("headers").to_pylist()
    return [
        (offset, time, key, value, tuple((header["key"], header["value"]) for header in of_record))
        for offset, time, key, value, of_record in zip(
            found.column("offset").to_pylist(),
            times,
            found.column("key").to_pylist(),
            found.column("value").to_pylist(),
            lists,
            strict=True,
        )
    ]


def as_rows(found: Sequence[Record]) -> list[tuple[Any, ...]]:
    return [(record.offset, record.timestamp, record.key, record.value, record.headers) for record in found]


@pytest.mark.parametrize("compiled", WAYS)
@settings(deadline=None, max_examples=60)
@given(
    batches=batches_of_records,
    codec=st.sampled_from(Compression),
    append_time=st.none() | st.integers(0, 2**41),
    cut=st.tuples(st.integers(0, 30), st.integers(0, 50)),
)
def test_columns_hold_what_the_records_hold(
    compiled: bool, batches: list[list[Record]], codec: Compression, append_time: int | None, cut: tuple[int, int]
) -> None:
    made: list[bytes] = []
    base = 3
    for index, batch in enumerate(batches):
        mixed = codec if index % 2 else Compression.NONE
        made.append(build_batch(batch, base_offset=Offset(base), compression=mixed, log_append_time_ms=append_time))
        base += len(batch) + 2
    start, end = cut
    expected = [record for one in made for record in as_rows(read_records(one)) if start <= record[0] < end]

    found = decode(b"".join(made), start=start, end=end, compiled=compiled)

    found.validate(full=True)
    assert rows_of(found) == expected
    assert set(found.column("timestamp_type").to_pylist()) <= {int(append_time is not None)}


@settings(deadline=None, max_examples=100)
@given(
    gaps=st.lists(st.tuples(st.integers(0, 40), st.integers(1, 5)), min_size=1, max_size=5),
    start=st.integers(0, 120),
    length=st.integers(1, 60),
)
def test_who_reads_a_range_of_a_compacted_log_comes_to_its_end(
    gaps: list[tuple[int, int]], start: int, length: int
) -> None:
    made, base = b"", 0
    for gap, count in gaps:
        made += build_batch([Record(0, 1, None, b"v")] * count, base_offset=Offset(base + gap))
        base += gap + count
    end = start + length

    next_offset = [piece.next_offset for piece in decode_each(made, start=start, end=end)][-1]

    assert next_offset == (end if base >= end else max(start, base))


@pytest.mark.parametrize("compiled", WAYS)
@settings(deadline=None, max_examples=300)
@given(
    batch=st.lists(records, min_size=1, max_size=4), changes=st.lists(st.tuples(st.integers(0), st.integers(0, 255)))
)
def test_bytes_that_are_not_what_they_claim_are_refused_as_records_refuse_them(
    compiled: bool, batch: list[Record], changes: list[tuple[int, int]]
) -> None:
    damaged = bytearray(build_batch(batch))
    for place, byte in changes:
        damaged[HEADER_BYTES + place % (len(damaged) - HEADER_BYTES)] = byte

    def by_records() -> list[tuple[Any, ...]] | ErrorCode:
        try:
            return as_rows(read_records(damaged, check_crc=False))
        except ProtocolError as error:
            return error.code

    def by_columns() -> list[tuple[Any, ...]] | ErrorCode:
        try:
            found = decode(damaged, check_crc=False, compiled=compiled, start=-(2**63))
        except ProtocolError as error:
            return error.code
        found.validate(full=True)
        return rows_of(found)

    expected, found = by_records(), by_columns()
    if isinstance(expected, list):
        if any(abs(time) > INT64_MAX for _, time, *_ in expected):
            return  # More than any timestamp can be; what becomes of it is nobody's concern.
        expected = [(*row[:4], tuple((_as_java(name), value) for name, value in row[4])) for row in expected]
    assert found == expected


def _as_java(name: str) -> str:
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


@pytest.mark.parametrize("compiled", WAYS)
@settings(deadline=None, max_examples=200)
@given(noise=st.binary(max_size=300), count=st.integers(-5, 60), codec=st.sampled_from(Compression))
def test_noise_behind_a_header_never_reads_beyond_its_bytes(
    compiled: bool, noise: bytes, count: int, codec: Compression
) -> None:
    batch = bytearray(build_batch([Record(0, 0, None, b"")])[:HEADER_BYTES] + noise)
    batch[8:12] = (len(batch) - 12).to_bytes(4)
    batch[21:23] = int(codec).to_bytes(2)
    batch[57:61] = count.to_bytes(4, signed=True)
    try:
        decode(batch, check_crc=False, compiled=compiled).validate(full=True)
    except ProtocolError as error:
        assert error.code in (ErrorCode.INVALID_RECORD, ErrorCode.MESSAGE_TOO_LARGE)


@pytest.mark.parametrize("compiled", WAYS)
@settings(deadline=None, max_examples=100)
@given(batches=batches_of_records, columns=st.lists(st.sampled_from(ALL_COLUMNS), unique=True, min_size=1))
def test_a_column_is_the_same_whatever_is_asked_for_beside_it(
    compiled: bool, batches: list[list[Record]], columns: list[str]
) -> None:
    whole = b"".join(build_batch(records, base_offset=Offset(100 * at)) for at, records in enumerate(batches))
    everything = decode(whole, columns=ALL_COLUMNS, compiled=compiled)
    found = decode(whole, columns=columns, compiled=compiled)
    assert found.equals(everything.select(columns))
    found.validate(full=True)


def test_the_source_of_the_kernel_runs_uncompiled_and_finds_the_same() -> None:
    path = Path(kernel.__file__).parent / "kernel.py"
    spec = importlib.util.spec_from_file_location("plain_kernel", path)
    assert spec is not None and spec.loader is not None
    plain = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(plain)
    assert not plain.COMPILED
    assert plain.REVISION == KERNEL_REVISION
    batch = build_batch(
        [
            Record(0, 5, b"k", bytes(200), (("a", b"1"), ("b", None))),
            Record(0, 2**40, None, None),
            Record(0, 4, b"", b"v"),
        ],
        base_offset=Offset(10),
    )
    offsets, times, header_starts, header_counts = (memoryview(bytearray(3 * 8)).cast("q") for _ in range(4))
    keys, values = (
        (memoryview(bytearray(len(batch))), memoryview(bytearray(16)).cast("i"), memoryview(bytearray(3)))
        for _ in range(2)
    )
    bodies = np.array([HEADER_BYTES, len(batch), 3, 10, 5, 0, 0, 0], np.int64)
    problem = np.zeros(3, np.int64)

    view = memoryview(batch)
    everything = sum(wanted_numbers().values())
    rows = plain.walk(
        view, bodies, 1, 0, 100, everything, offsets, times, *keys, *values, header_starts, header_counts, problem
    )

    assert rows == 3 == bodies[7]
    assert list(offsets) == [10, 11, 12]
    assert list(times) == [5, 2**40, 4]
    assert (list(keys[1]), list(keys[2]), bytes(keys[0][:1])) == ([0, 1, 1, 1], [0, 1, 0], b"k")
    assert (list(values[1]), list(values[2])) == ([0, 200, 200, 201], [0, 1, 0])
    assert bytes(values[0][:201]) == bytes(200) + b"v"
    assert list(header_counts) == [2, 0, 0]
    bounds, packed = memoryview(bytearray(16)).cast("i"), memoryview(bytearray(4))
    plain.gather(view, np.array([0, 0, 2]), np.array([3, -1, 1]), 3, bounds, packed)
    assert list(bounds) == [0, 3, 3, 4]
    assert bytes(packed) == batch[:3] + batch[2:3]
    parts = [memoryview(bytearray(2 * 8)).cast("q") for _ in range(4)]
    plain.walk_headers(view, header_starts, header_counts, 3, *parts)
    names = [batch[start : start + length] for start, length in zip(parts[0], parts[1], strict=True)]
    assert names == [b"a", b"b"]
    assert list(parts[3]) == [1, -1]

    def column(data: bytes, starts: list[int], lengths: list[int]) -> list[Any]:
        return [memoryview(data), np.array(starts).data, np.array(lengths).data]

    out, ends = memoryview(bytearray(300)), memoryview(bytearray(8)).cast("q")
    keys, values = column(b"k", [0, 1, 1], [1, -1, 0]), column(bytes(200) + b"v", [0, 200, 200], [200, -1, 1])
    headers = [*column(b"\x02a\x021\x02b\x01", [0, 0, 0], [7, 0, 0]), np.array([2, 0, 0]).data]
    arguments = (np.array([0, 3]).data, 1, np.array([5, 2**40, 4]).data, *keys, *values, *headers, ends)
    written = plain.write(out, *arguments)
    assert bytes(out[:written]) == batch[HEADER_BYTES:]
    assert list(ends) == [written]
    assert plain.write(out[:written], *arguments) == -1


@pytest.mark.parametrize("compiled", WAYS)
def test_control_batches_and_aborted_transactions_are_left_out(compiled: bool) -> None:
    def written(base: int, value: bytes, producer: int) -> bytes:
        return build_batch(
            [Record(0, 1, None, value)],
            base_offset=Offset(base),
            producer_id=ProducerId(producer),
            producer_epoch=ProducerEpoch(0),
            base_sequence=0,
            is_transactional=True,
        )

    def ended(base: int, producer: int, *, committed: bool) -> bytes:
        marker = EndTransaction(committed, 0)
        identity = (ProducerId(producer), ProducerEpoch(0))
        return build_end_transaction(marker, *identity, 1, base_offset=Offset(base), leader_epoch=LeaderEpoch(0))

    fetched = b"".join(
        [
            written(0, b"lost", 7),
            written(1, b"kept", 8),
            ended(2, 7, committed=False),
            written(3, b"after", 7),
            ended(4, 8, committed=True),
            ended(5, 7, committed=True),
        ]
    )
    aborted = [AbortedTransaction(producer_id=7, first_offset=0)]

    def values(**arguments: Any) -> list[bytes]:
        found: list[bytes] = decode(fetched, compiled=compiled, columns=["value"], **arguments).column(0).to_pylist()
        return found

    assert values() == [b"lost", b"kept", b"after"]
    assert values(aborted=aborted) == [b"kept", b"after"]


@pytest.mark.parametrize("compiled", WAYS)
def test_each_column_can_be_read_alone_and_in_any_order(compiled: bool) -> None:
    batch = build_batch([Record(0, 5, b"k", b"v", (("h", b"x"),)), Record(0, -1, None, None)])
    where = TopicPartition(TopicName("t"), PartitionIndex(3))
    every = decode(batch, columns=ALL_COLUMNS, of=where, compiled=compiled)
    assert every.column("topic").to_pylist() == ["t", "t"]
    assert every.column("partition").to_pylist() == [3, 3]
    assert every.column("timestamp").is_null().to_pylist() == [False, True]
    for name in ALL_COLUMNS:
        alone = decode(batch, columns=[name], of=where, compiled=compiled)
        assert alone.schema.names == [name]
        assert alone.column(0).equals(every.column(name))
    reverse = decode(batch, columns=ALL_COLUMNS[::-1], of=where, compiled=compiled)
    assert reverse.schema.names == list(ALL_COLUMNS[::-1])
    assert decode(batch, columns=[], compiled=compiled).num_columns == 0
    with pytest.raises(ValueError, match="no column 'price'"):
        decode(batch, columns=["price"], compiled=compiled)


@pytest.mark.parametrize("compiled", WAYS)
def test_a_wrong_crc_is_refused_and_a_batch_that_is_cut_off_left_out(compiled: bool) -> None:
    batch = build_batch([Record(0, 5, b"k", b"v")])
    broken = bytearray(batch)
    broken[-2] ^= 1
    with pytest.raises(ProtocolError) as raised:
        decode(broken, compiled=compiled)
    assert raised.value.code == ErrorCode.CORRUPT_MESSAGE
    assert decode(batch + batch[:-1], compiled=compiled).num_rows == 1
    assert decode(b"", compiled=compiled).num_rows == 0


@pytest.mark.parametrize("compiled", WAYS)
def test_a_header_name_that_is_no_text_is_replaced_as_java_replaces_it(compiled: bool) -> None:
    batch = build_batch([Record(0, 5, None, b"v", (("a\udcffb", b"x"), ("ok", None)))])
    (found,) = decode(batch, columns=["headers"], compiled=compiled).column(0).to_pylist()
    assert [header["key"] for header in found] == ["a\ufffdb", "ok"]


@pytest.mark.parametrize("compiled", WAYS)
@settings(deadline=None, max_examples=80)
@given(
    rows=st.lists(records, min_size=1, max_size=30),
    codec=st.sampled_from(Compression),
    batch_bytes=st.integers(1, 400),
    start=st.integers(0, 3),
)
def test_what_is_encoded_from_columns_is_read_as_records(
    compiled: bool, rows: list[Record], codec: Compression, batch_bytes: int, start: int
) -> None:
    kept = rows[start:]
    arrays = Rows(
        pa.array([record.key for record in rows], pa.binary()).slice(start),
        pa.array([record.value for record in rows], pa.binary()).slice(start),
        np.array([record.timestamp for record in kept], np.int64),
        _headers_array(rows).slice(start),
    )

    arrays.timestamps.flags.writeable = False  # As a column of Arrow is.
    sealed = [body.seal() for body in encode(arrays, batch_bytes=batch_bytes, compression=codec, compiled=compiled)]

    found = [record for batch in sealed for record in read_records(batch)]
    assert [as_row[1:] for as_row in as_rows(found)] == [as_row[1:] for as_row in as_rows(kept)]
    for batch in sealed:
        read = read_records(batch)
        assert [record.offset for record in read] == list(range(len(read)))
        assert codec or len(batch) <= batch_bytes or len(read) == 1


def _headers_array(rows: Sequence[Record]) -> Any:
    type_ = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
    return pa.array([[{"key": name, "value": value} for name, value in row.headers] for row in rows], type_)


@pytest.mark.parametrize("compiled", WAYS)
@settings(deadline=None, max_examples=40)
@given(values=st.lists(contents, min_size=1, max_size=30))
def test_one_batch_from_columns_has_the_bytes_that_records_have(compiled: bool, values: list[bytes | None]) -> None:
    by_records: Buffer = build_batch([Record(0, 7, None, value) for value in values])
    rows = Rows(None, pa.array(values, pa.binary()), np.full(len(values), 7, np.int64))
    (body,) = encode(rows, compiled=compiled)
    assert body.seal() == by_records
