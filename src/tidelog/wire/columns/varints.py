"""Varints by the column: how many bytes each number takes, and the bytes of several numbers of each row in a row.

`encode.py` calls it; numpy does the work.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from tidelog.wire.columns.fields import Bytes, Int64s, Uint64s

BITS: Final = 7
CONTINUED: Final = 0x80
VARLONG_BYTES_MAX: Final = 10
# From which zigzag number on a varint has two bytes, three, and so on.
_STEPS: Final = tuple(np.uint64(1 << BITS * count) for count in range(1, VARLONG_BYTES_MAX))


def zigzag(numbers: Int64s) -> Uint64s:
    """Small numbers of either sign as small numbers without one."""
    made: Uint64s = ((numbers << np.int64(1)) ^ (numbers >> np.int64(63))).view(np.uint64)
    return made


def varint_sizes(numbers: Int64s) -> Int64s:
    """How many bytes each number takes."""
    plain = zigzag(numbers)
    sizes = np.ones(len(numbers), np.int64)
    largest = plain.max(initial=np.uint64(0))
    for step in _STEPS:
        if largest < step:
            break
        sizes += plain >= step
    return sizes


def varint_rows(columns: Sequence[Int64s]) -> Any:
    """The numbers of each row as varints one behind the other: an Arrow binary array.

    A table with a column for each byte is filled, then the bytes that numbers do not need are left out.
    """
    rows = len(columns[0])
    bytes_: list[Bytes] = []
    needed: list[Any] = []
    for numbers in columns:
        plain = zigzag(numbers)
        largest = plain.max(initial=np.uint64(0))
        everywhere: Any = True
        for index in range(VARLONG_BYTES_MAX):
            byte = (plain >> np.uint64(BITS * index)).astype(np.uint8) if index else plain.astype(np.uint8)
            needed.append(everywhere)
            if index == len(_STEPS) or largest < _STEPS[index]:
                bytes_.append(byte)
                break
            everywhere = plain >= _STEPS[index]
            byte &= 0x7F
            byte |= everywhere.view(np.uint8) << 7
            bytes_.append(byte)
    table = np.empty((rows, len(bytes_)), np.uint8)
    for index, byte in enumerate(bytes_):
        table[:, index] = byte
    offsets = np.empty(rows + 1, np.int32)
    if all(where is True or where.all() for where in needed):
        offsets[:] = np.arange(rows + 1, dtype=np.int32) * len(bytes_)
        data = table.reshape(-1)
    else:
        mask = np.empty(table.shape, np.bool_)
        for index, where in enumerate(needed):
            mask[:, index] = where
        offsets[0] = 0
        np.cumsum(np.count_nonzero(mask, axis=1), out=offsets[1:])
        data = table[mask]
    return pa.Array.from_buffers(pa.binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
