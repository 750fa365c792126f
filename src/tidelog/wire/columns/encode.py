"""Arrow columns to record batches: the rows of a table as the bytes that a broker takes, no Python object for a row.

Called by the producer's Arrow side. Bodies are made first and sealed when they are sent: only then is the producer's
sequence known.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from tidelog.model.ids import NO_PRODUCER, ProducerEpoch, ProducerId
from tidelog.wire.batch import (
    CHECKED_POSITION,
    CRC_POSITION,
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    MAGIC,
    NO_SEQUENCE,
    TRANSACTIONAL_FLAG,
    Buffer,
)
from tidelog.wire.columns import kernel
from tidelog.wire.columns.arrays import binary_array, number_array
from tidelog.wire.columns.fields import COMPILED, Int64s, Spans
from tidelog.wire.columns.varints import varint_rows, varint_sizes
from tidelog.wire.compression import Compression, compress
from tidelog.wire.crc import crc32c
from tidelog.wire.records import NO_PRODUCER_EPOCH

BATCH_BYTES: Final = 1024 * 1024 - 1024
# Rows are encoded in steps of about this many bytes, so that what is being made stays in the processor's cache.
STEP_BYTES: Final = 4 * 1024 * 1024
RECORDS_MAX: Final = 1_000_000
ATTRIBUTES_BYTES: Final = 1
LENGTH_BYTES_MAX: Final = 5
OFFSET_BYTES_MAX: Final = 3
NULL: Final = -1
NO_EPOCH: Final = -1
# The kernel wants this much more room than it needs, so that it has to look once for each record.
WRITING_BYTES: Final = 16

_NO_HEADERS, _NOTHING = binary_array(np.zeros(1, np.uint8), Spans(np.array([0, 1]), np.array([1, 0])))
_JOINING: Final = pc.JoinOptions(null_handling="replace", null_replacement="")


@dataclass(frozen=True, slots=True)
class Rows:
    """What becomes records: binary arrays of keys and values (None: all are null), times, lists of headers."""

    keys: Any | None
    values: Any | None
    timestamps: Int64s
    headers: Any | None = None

    def __len__(self) -> int:
        return len(self.timestamps)

    def slice(self, start: int, end: int) -> Rows:
        return Rows(
            None if self.keys is None else self.keys.slice(start, end - start),
            None if self.values is None else self.values.slice(start, end - start),
            self.timestamps[start:end],
            None if self.headers is None else self.headers.slice(start, end - start),
        )

    def take(self, indexes: Int64s) -> Rows:
        """Some of the rows, in this order."""
        places = number_array(indexes, pa.int64())
        return Rows(
            None if self.keys is None else self.keys.take(places),
            None if self.values is None else self.values.take(places),
            self.timestamps[indexes],
            None if self.headers is None else self.headers.take(places),
        )


@dataclass(frozen=True, slots=True)
class Body:
    """The records of a batch that has no header yet."""

    data: Buffer
    records_count: int
    base_timestamp: int
    max_timestamp: int
    compression: Compression

    @property
    def size_bytes(self) -> int:
        """What the whole batch takes."""
        return HEADER_BYTES + len(self.data)

    def seal(
        self,
        producer_id: ProducerId = NO_PRODUCER,
        producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        *,
        is_transactional: bool = False,
    ) -> bytearray:
        """The batch, with its header and CRC."""
        batch = bytearray(self.size_bytes)
        batch[HEADER_BYTES:] = self.data
        HEADER.pack_into(
            batch,
            0,
            0,
            self.size_bytes - LENGTH_OVERHEAD_BYTES,
            NO_EPOCH,
            MAGIC,
            0,
            self.compression | (TRANSACTIONAL_FLAG if is_transactional else 0),
            self.records_count - 1,
            self.base_timestamp,
            self.max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            self.records_count,
        )
        with memoryview(batch) as view:
            view[CRC_POSITION:CHECKED_POSITION] = crc32c(view[CHECKED_POSITION:]).to_bytes(4)
        return batch


def encode(
    rows: Rows,
    *,
    batch_bytes: int = BATCH_BYTES,
    compression: Compression = Compression.NONE,
    compression_level: int | None = None,
    compiled: bool = COMPILED,
) -> Iterator[Body]:
    """The rows in order, in batches of at most `batch_bytes` before compression; a larger record has its own."""
    if not len(rows):
        return
    ends = np.cumsum(_sizes(rows))
    make: _Make = _Written(rows, ends) if compiled else _Joined(rows)
    start = 0
    while start < len(rows):
        starts = _cut(ends, start, batch_bytes)
        start = starts[-1]
        for data, first, end in make.bodies(starts):
            timestamps = rows.timestamps[first:end]
            packed = compress(compression, data, compression_level) if compression else data
            yield Body(packed, end - first, int(timestamps[0]), int(timestamps.max()), compression)


def _cut(ends: Int64s, start: int, batch_bytes: int) -> list[int]:
    """Where the batches of the next step begin, and where the step ends. `ends`: the bytes of all rows up to each."""
    starts = [start]
    first_bytes = before_bytes = int(ends[start - 1]) if start else 0
    while start < len(ends) and (len(starts) == 1 or before_bytes - first_bytes < STEP_BYTES):
        fitting = int(np.searchsorted(ends, before_bytes + batch_bytes - HEADER_BYTES, "right"))
        start = min(max(fitting, start + 1), start + RECORDS_MAX)
        starts.append(start)
        before_bytes = int(ends[start - 1])
    return starts


def _sizes(rows: Rows) -> Int64s:
    """What each record takes in a batch, never too little: numbers as long as the longest of them."""
    times = rows.timestamps
    sizes = np.full(len(rows), LENGTH_BYTES_MAX + ATTRIBUTES_BYTES + OFFSET_BYTES_MAX, np.int64)
    sizes += _size_of(int(times.max()) - int(times.min()))
    for column in (rows.keys, rows.values):
        if column is None:
            sizes += 1
        else:
            lengths = lengths_of(column)
            sizes += _size_of(int(lengths.max()))
            sizes += np.maximum(lengths, 0) if column.null_count else lengths
    if rows.headers is None:
        sizes += 1
    else:
        counts, blocks = _header_blocks(rows.headers)
        sizes += _size_of(int(counts.max())) + lengths_of(blocks)
    return sizes


def _size_of(number: int) -> int:
    return int(varint_sizes(np.array([number], np.int64))[0])


class _Make(Protocol):
    """A way to make the bytes of rows."""

    def bodies(self, starts: list[int]) -> Iterator[tuple[memoryview, int, int]]:
        """The bytes of the rows from each start to the next, with the first row and the one behind the last."""
        ...


class _Written:
    """By the compiled kernel, into room that the bound on the sizes measures."""

    def __init__(self, rows: Rows, ends: Int64s) -> None:
        self._ends = ends
        self._timestamps = np.ascontiguousarray(rows.timestamps)
        self._keys = _bytes_of(rows.keys, len(rows))
        self._values = _bytes_of(rows.values, len(rows))
        if rows.headers is None:
            nothing = np.zeros(len(rows), np.int64)
            self._headers = (np.zeros(1, np.uint8), nothing, nothing, nothing)
        else:
            counts, blocks = _header_blocks(rows.headers)
            self._headers = (*_bytes_of(blocks, len(rows)), counts)

    def bodies(self, starts: list[int]) -> Iterator[tuple[memoryview, int, int]]:
        first, end = starts[0], starts[-1]
        room_bytes = int(self._ends[end - 1]) - (int(self._ends[first - 1]) if first else 0)
        out = np.empty(room_bytes + WRITING_BYTES, np.uint8)
        bounds = np.array(starts, np.int64)
        places = np.empty(len(starts) - 1, np.int64)
        arguments = (out, bounds, len(places), self._timestamps, *self._keys, *self._values, *self._headers, places)
        written = kernel.write(*arguments)
        assert written >= 0, "the sizes of records are never bounded too low"
        begun = 0
        view = out.data
        for start, stop, place in zip(starts[:-1], starts[1:], places.tolist(), strict=True):
            yield view[begun:place], start, stop
            begun = place


def _bytes_of(column: Any | None, rows: int) -> tuple[Any, Int64s, Int64s]:
    """The data of a binary array, and where in it each value begins and how long it is; -1 for null."""
    if column is None or column.buffers()[2] is None:
        lengths = np.full(rows, NULL, np.int64) if column is None else lengths_of(column)
        return np.zeros(1, np.uint8), np.zeros(rows, np.int64), lengths
    _, bounds, data = column.buffers()
    starts = np.frombuffer(bounds, np.int32)[column.offset : column.offset + rows].astype(np.int64)
    return np.frombuffer(data, np.uint8), starts, lengths_of(column)


class _Joined:
    """By numpy and Arrow."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def bodies(self, starts: list[int]) -> Iterator[tuple[memoryview, int, int]]:
        first, end = starts[0], starts[-1]
        chosen = self._rows.slice(first, end)
        bounds = np.array(starts, np.int64) - first
        counts = np.diff(bounds)
        offsets = np.arange(end - first) - np.repeat(bounds[:-1], counts)
        times = chosen.timestamps - np.repeat(chosen.timestamps[bounds[:-1]], counts)
        joined = _join(chosen, offsets, times)
        _, places, data = joined.buffers()
        ends = np.frombuffer(places, np.int32)[joined.offset :]
        view = memoryview(data).cast("B")
        for start, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            yield view[int(ends[start]) : int(ends[stop])], first + start, first + stop


def _join(rows: Rows, offsets: Int64s, times: Int64s) -> Any:
    """Each record as one value of a binary array, so that the array's data is the records one behind the other."""
    count = len(rows)
    nulls = np.full(count, NULL, np.int64)
    key_lengths = nulls if rows.keys is None else lengths_of(rows.keys)
    value_lengths = nulls if rows.values is None else lengths_of(rows.values)
    lengths = ATTRIBUTES_BYTES + varint_sizes(times) + varint_sizes(offsets)
    lengths += varint_sizes(key_lengths) + np.maximum(key_lengths, 0)
    lengths += varint_sizes(value_lengths) + np.maximum(value_lengths, 0)
    tail: list[Any] = [_NO_HEADERS]
    if rows.headers is None:
        lengths += 1
    else:
        header_counts, blocks = _header_blocks(rows.headers)
        tail = [varint_rows([header_counts]), blocks]
        lengths += varint_sizes(header_counts) + lengths_of(blocks)
    head = [lengths, np.zeros(count, np.int64), times, offsets, key_lengths]
    parts: list[Any]
    if rows.keys is None or rows.keys.null_count == count:
        parts = [varint_rows([*head, value_lengths])]
    else:
        parts = [varint_rows(head), rows.keys, varint_rows([value_lengths])]
    if rows.values is not None:
        parts.append(rows.values)
    return pc.binary_join_element_wise(*parts, *tail, _NOTHING, options=_JOINING)


def _header_blocks(headers: Any) -> tuple[Int64s, Any]:
    """How many headers each row has, and their bytes as a binary array."""
    bounds = np.frombuffer(headers.buffers()[1], np.int32)[headers.offset : headers.offset + len(headers) + 1]
    elements = headers.values.slice(int(bounds[0]), int(bounds[-1] - bounds[0]))
    keys = elements.field(0).cast(pa.binary())
    values = elements.field(1)
    joined = pc.binary_join_element_wise(
        varint_rows([lengths_of(keys)]),
        keys,
        varint_rows([lengths_of(values)]),
        values,
        _NOTHING,
        options=_JOINING,
    )
    _, places, data = joined.buffers()
    ends = np.frombuffer(places, np.int32)[joined.offset :]
    blocks = np.ascontiguousarray(ends[bounds - bounds[0]])
    counts = np.diff(bounds).astype(np.int64)
    return counts, pa.Array.from_buffers(pa.binary(), len(headers), [None, pa.py_buffer(blocks), data])


def lengths_of(array: Any) -> Int64s:
    """The length of each value of a binary array; -1 for null."""
    bounds = np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + len(array) + 1]
    lengths = np.diff(bounds).astype(np.int64)
    if array.null_count:
        lengths[np.asarray(array.is_null())] = NULL
    return lengths
