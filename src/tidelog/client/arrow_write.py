"""From tables to batches: which columns are key, value, headers and time, and which row goes to which partition.

`arrow_send.py` hands over what `batches_of` makes. Takes whatever speaks Arrow: pyarrow tables, record batches and
readers, pandas, Polars, DuckDB. Needs `tidelog[arrow]`; sends nothing itself.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from tidelog.client.core.pending import EncodedRecords
from tidelog.client.core.table_columns import Auto, TableColumns
from tidelog.wire.columns.encode import BATCH_BYTES, Rows, encode, lengths_of
from tidelog.wire.columns.fields import Int64s
from tidelog.wire.columns.layout import VALUE
from tidelog.wire.columns.murmur2 import partitions_of_keys

# Rows are taken in steps of about this many bytes, so that a large table is never encoded as a whole.
STEP_BYTES: Final = 8 * 1024 * 1024
# What a request and the header of a batch take beside the records, with room to spare.
OVERHEAD_BYTES: Final = 1024
# What a record without a key takes beside its value, about: by it the partitions are filled evenly.
RECORD_OVERHEAD_BYTES: Final = 12
NANOSECONDS_IN_MS: Final = 1_000_000

HEADER_LISTS: Final = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))


class TableBatch(NamedTuple):
    """Rows for one partition, encoded."""

    partition: int
    records: EncodedRecords


def batches_of(
    data: Any, columns: TableColumns, partitions: int, batch_bytes: int = BATCH_BYTES, first_sticky: int = 0
) -> Iterator[TableBatch]:
    """The rows of a table as batches for partitions; within a partition the order of the rows is kept.

    Rows with a key go where Java's client would put them; others fill one partition after the other, from
    `first_sticky` on, a batch each. ValueError or TypeError for columns that are not there or cannot be sent.
    """
    sticky = first_sticky
    for table in record_batches(data):
        for piece in _steps(table, max(STEP_BYTES, batch_bytes * partitions)):
            rows = rows_of(piece, columns)
            targets, sticky = _targets(piece, rows, columns, partitions, batch_bytes, sticky)
            for partition, chosen in _by_partition(rows, targets):
                for body in encode(chosen, batch_bytes=batch_bytes):
                    records = EncodedRecords(body.data, body.records_count, body.base_timestamp, body.max_timestamp)
                    yield TableBatch(partition, records)


def record_batches(data: Any) -> Iterator[Any]:
    """The record batches of whatever speaks Arrow."""
    if isinstance(data, pa.RecordBatch):
        yield data
    elif isinstance(data, pa.Table):
        yield from data.to_batches()
    elif hasattr(data, "__arrow_c_stream__"):
        yield from pa.RecordBatchReader.from_stream(data)
    elif isinstance(data, Iterable):
        for part in data:
            yield from record_batches(part)
    else:
        raise TypeError(f"{type(data).__name__} is no table: it does not speak Arrow.")


def rows_of(batch: Any, columns: TableColumns) -> Rows:
    """The rows of a record batch, with the columns as records need them."""
    names = set(batch.schema.names)
    if isinstance(columns.value, Auto) and VALUE not in names:
        raise ValueError(f"Which column is the value? There is no '{VALUE}' among {', '.join(batch.schema.names)}.")
    key = _column(batch, columns.key)
    value = _column(batch, columns.value)
    headers = _column(batch, columns.headers)
    return Rows(
        None if key is None else _as_binary(key, str(columns.key)),
        None if value is None else _as_binary(value, str(columns.value)),
        _times(_column(batch, columns.timestamp), batch.num_rows),
        None if headers is None else _as_headers(headers, str(columns.headers)),
    )


def _column(batch: Any, name: str | None) -> Any:
    if name is None or (isinstance(name, Auto) and name not in batch.schema.names):
        return None
    if name not in batch.schema.names:
        raise ValueError(f"The table has no column '{name}': it has {', '.join(batch.schema.names)}.")
    return batch.column(batch.schema.names.index(name))


def _as_binary(column: Any, name: str) -> Any:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    type_ = column.type
    if pa.types.is_null(type_):
        return pa.nulls(len(column), pa.binary())
    for test in ("binary", "string", "large_binary", "large_string", "fixed_size_binary", "binary_view", "string_view"):
        if getattr(pa.types, f"is_{test}")(type_):
            return column.cast(pa.binary())
    raise TypeError(f"Column '{name}' is {type_}; keys and values are text or bytes.")


def _as_headers(column: Any, name: str) -> Any:
    try:
        if pa.types.is_map(column.type):
            entries = pa.StructArray.from_arrays([column.keys, column.items], names=["key", "value"])
            column = pa.ListArray.from_arrays(column.offsets, entries)
        return pc.fill_null(column.cast(HEADER_LISTS), pa.scalar([], HEADER_LISTS))
    except pa.ArrowException as error:
        raise TypeError(f"Column '{name}' is {column.type}; headers are lists of key and value: {error}") from None


def _times(column: Any, rows: int) -> Int64s:
    """Milliseconds since 1970; now where there is no time."""
    now_ms = time.time_ns() // NANOSECONDS_IN_MS
    if column is None:
        return np.full(rows, now_ms, np.int64)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms", column.type.tz), safe=False)
    times: Int64s = np.asarray(column.cast(pa.int64()).fill_null(now_ms), np.int64)
    return times


def _steps(batch: Any, step_bytes: int) -> Iterator[Any]:
    rows = batch.num_rows
    count = max(1, min(rows, rows * step_bytes // max(1, batch.nbytes)))
    for start in range(0, rows, count):
        yield batch.slice(start, count)


def _targets(
    batch: Any, rows: Rows, columns: TableColumns, partitions: int, batch_bytes: int, sticky: int
) -> tuple[int | Int64s, int]:
    """The partition of each row, or of all, and where the next rows without a key go."""
    if isinstance(columns.partition, int):
        return columns.partition, sticky
    if columns.partition is not None:
        column = _column(batch, columns.partition)
        return np.asarray(column.cast(pa.int64()), np.int64), sticky
    if partitions == 1:
        return 0, sticky
    has_key = np.zeros(len(rows), np.bool_) if rows.keys is None else np.asarray(rows.keys.is_valid())
    targets = np.zeros(len(rows), np.int64) if rows.keys is None else partitions_of_keys(rows.keys, partitions)
    without = np.flatnonzero(~has_key)
    if len(without):
        lengths = np.zeros(len(rows), np.int64) if rows.values is None else np.maximum(lengths_of(rows.values), 0)
        turns = np.cumsum(lengths[without] + RECORD_OVERHEAD_BYTES) // batch_bytes
        targets[without] = (sticky + turns) % partitions
        sticky = (sticky + int(turns[-1]) + 1) % partitions
    return targets, sticky


def _by_partition(rows: Rows, targets: int | Int64s) -> Iterator[tuple[int, Rows]]:
    if isinstance(targets, int):
        yield targets, rows
        return
    order = np.argsort(targets, kind="stable")
    present, firsts = np.unique(targets[order], return_index=True)
    for partition, indexes in zip(present.tolist(), np.split(order, firsts[1:]), strict=True):
        yield partition, rows.take(indexes)


def bytes_in(column: Any) -> int:
    """How many bytes the values of a binary array have together."""
    if not len(column) or column.null_count == len(column):
        return 0
    bounds = np.frombuffer(column.buffers()[1], np.int32)
    return int(bounds[column.offset + len(column)] - bounds[column.offset])
