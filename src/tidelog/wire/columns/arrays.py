"""Arrow arrays from numbers and from places in a buffer. Bytes are copied by the kernel, or by Arrow without it.

`decode.py` and `encode.py` call it. Arrays are made of buffers: `pyarrow.array` would load pandas to see whether it was
given some of it.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from numpy.typing import NDArray

from tidelog.wire.columns import kernel
from tidelog.wire.columns.fields import COMPILED, Bytes, Int64s, Spans

# Arrow's binary arrays count their bytes in 32 bits.
BINARY_BYTES_MAX: Final = 2**31 - 1


def binary_array(buffer: Bytes, spans: Spans, *, compiled: bool = COMPILED) -> Any:
    """The bytes of each row, packed. Starts must ascend, as those of fields in a buffer do."""
    starts, lengths = spans.starts, spans.lengths
    rows = len(starts)
    null_count = int(np.count_nonzero(lengths < 0))
    if null_count == rows:
        return pa.nulls(rows, pa.binary())
    if not compiled:
        return _taken(buffer, spans, null_count)
    bounds = np.empty(rows + 1, np.int32)
    data = pa.allocate_buffer(int(lengths.sum()) + null_count)
    kernel.gather(buffer, starts, lengths, rows, bounds, np.frombuffer(data, np.uint8))
    present = validity(lengths >= 0) if null_count else None
    return pa.Array.from_buffers(pa.binary(), rows, [present, pa.py_buffer(bounds), data], null_count)


def _taken(buffer: Bytes, spans: Spans, null_count: int) -> Any:
    """The same without the kernel.

    The buffer is cut into twice as many values as there are rows, the wanted ones and what lies between them, of which
    Arrow takes every other: one copy, at the speed of memory.
    """
    starts, lengths = spans.starts, spans.lengths
    rows = len(starts)
    bounds = np.empty(2 * rows + 1, np.int32)
    bounds[:-1:2] = starts
    np.add(starts, np.maximum(lengths, 0), out=bounds[1::2], casting="unsafe")
    bounds[-1] = bounds[-2]
    pieces = pa.Array.from_buffers(pa.binary(), 2 * rows, [None, pa.py_buffer(bounds), pa.py_buffer(buffer)])
    taken = pieces.take(number_array(np.arange(0, 2 * rows, 2, dtype=np.int32), pa.int32()))
    if not null_count:
        return taken
    _, offsets, data = taken.buffers()
    return pa.Array.from_buffers(pa.binary(), rows, [validity(lengths >= 0), offsets, data], null_count)


def text_array(buffer: Bytes, spans: Spans, *, compiled: bool = COMPILED) -> Any:
    """The same as text. What is no UTF-8 is replaced as Java's client replaces it: Arrow has to trust its texts."""
    found = binary_array(buffer, spans, compiled=compiled)
    try:
        return found.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([raw.decode("utf-8", "replace") for raw in found.to_pylist()], pa.string())


def number_array(numbers: NDArray[Any], type_: Any, nulls: NDArray[np.bool_] | None = None) -> Any:
    """Numbers as they are, without a copy."""
    present = None if nulls is None else validity(~nulls)
    return pa.Array.from_buffers(type_, len(numbers), [present, pa.py_buffer(np.ascontiguousarray(numbers))])


def empty_batch(schema: Any) -> Any:
    """No rows at all."""
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


def validity(present: NDArray[np.bool_]) -> Any:
    """Arrow's bitmap of rows that are not null."""
    return pa.py_buffer(np.packbits(present, bitorder="little"))


def list_array(counts: Int64s, elements: Any, type_: Any) -> Any:
    """Lists of so many elements each."""
    offsets = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    return pa.Array.from_buffers(type_, len(counts), [None, pa.py_buffer(offsets)], children=[elements])
