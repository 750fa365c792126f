"""The wanted fields of records: taken in one walk by the compiled kernel, or found by numpy and then copied.

`decode.py` makes columns of them. Both ways give the same for the same bytes, and the same refusals.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from numpy.typing import NDArray

from tidelog.wire.columns import kernel, layout
from tidelog.wire.columns.arrays import binary_array, validity
from tidelog.wire.columns.fields import SENTENCES, Body, Bytes, Int64s, check_claims, find_fields, malformed

# Where the kernel puts a column's bytes, its bounds, and which of it are null.
_Places: TypeAlias = tuple[Bytes, NDArray[np.int32], Bytes]
_NOWHERE: Final[_Places] = (np.empty(0, np.uint8), np.empty(0, np.int32), np.empty(0, np.uint8))
_NO_NUMBERS: Final = np.empty(0, np.int64)


class Taken(NamedTuple):
    """The rows of some bodies; what was not wanted is empty, or None."""

    rows: int
    rows_of_bodies: Int64s
    offsets: Int64s
    timestamps: Int64s
    keys: Any
    values: Any
    header_starts: Int64s
    header_counts: Int64s


def wanted_numbers() -> dict[str, int]:
    """How the kernel calls columns. Not said at import: a kernel of another revision, which is not used, has none."""
    return {
        layout.OFFSET: kernel.OFFSETS,
        layout.TIMESTAMP: kernel.TIMESTAMPS,
        layout.KEY: kernel.KEYS,
        layout.VALUE: kernel.VALUES,
        layout.HEADERS: kernel.HEADERS,
    }


def take(
    buffer: Bytes, bodies: Sequence[Body], start: int, end: int, columns: Collection[str], *, compiled: bool
) -> Taken:
    """What the columns need of the records from offset `start` on and before `end`. ProtocolError for broken ones."""
    if compiled:
        return _by_kernel(buffer, bodies, start, end, columns)
    found = find_fields(buffer, bodies, start, end)
    return Taken(
        len(found.offsets),
        found.rows_of_bodies,
        found.offsets,
        found.timestamps,
        binary_array(buffer, found.keys, compiled=False) if layout.KEY in columns else None,
        binary_array(buffer, found.values, compiled=False) if layout.VALUE in columns else None,
        found.header_starts,
        found.header_counts,
    )


def _by_kernel(buffer: Bytes, bodies: Sequence[Body], start: int, end: int, columns: Collection[str]) -> Taken:
    check_claims(bodies)
    numbers = np.array(
        [
            (begun, ended, count, base, timestamp, append_time is not None, append_time or 0, 0)
            for begun, ended, count, base, timestamp, append_time in bodies
        ],
        np.int64,
    ).reshape(-1, kernel.BODY_NUMBERS)
    records = sum(body.records_count for body in bodies)
    room_bytes = sum(body.end - body.start for body in bodies)
    numbers_of = wanted_numbers()
    wanted = [numbers_of[name] for name in columns if name in numbers_of]

    def room(field: int) -> Int64s:
        return np.empty(records, np.int64) if field in wanted else _NO_NUMBERS

    offsets, timestamps = room(kernel.OFFSETS), room(kernel.TIMESTAMPS)
    header_starts, header_counts = room(kernel.HEADERS), room(kernel.HEADERS)
    keys = _Packed(records, room_bytes) if kernel.KEYS in wanted else None
    values = _Packed(records, room_bytes) if kernel.VALUES in wanted else None
    key_places: _Places = _NOWHERE if keys is None else keys.places()
    value_places: _Places = _NOWHERE if values is None else values.places()
    problem = np.zeros(3, np.int64)
    rows = kernel.walk(
        buffer,
        numbers.reshape(-1),
        len(bodies),
        start,
        end,
        sum(wanted),
        offsets,
        timestamps,
        *key_places,
        *value_places,
        header_starts,
        header_counts,
        problem,
    )
    if rows < 0:
        raise malformed(SENTENCES[int(problem[0])])
    return Taken(
        rows,
        numbers[:, kernel.BODY_NUMBERS - 1],
        offsets[:rows],
        timestamps[:rows],
        None if keys is None else keys.array(rows),
        None if values is None else values.array(rows),
        header_starts[:rows],
        header_counts[:rows],
    )


class _Packed:
    """Room for the bytes of a column one behind the other, and then the column."""

    def __init__(self, records: int, room_bytes: int) -> None:
        # Arrow's own memory, of which it keeps what was given back: fresh memory costs a fault for each page.
        self._data = pa.allocate_buffer(max(1, room_bytes), resizable=True)
        self._bounds = np.empty(records + 1, np.int32)
        self._bounds[0] = 0
        self._nulls = np.empty(records, np.uint8)

    def places(self) -> _Places:
        return np.frombuffer(self._data, np.uint8), self._bounds, self._nulls

    def array(self, rows: int) -> Any:
        nulls = self._nulls[:rows].view(np.bool_)
        null_count = int(np.count_nonzero(nulls))
        if null_count == rows:
            return pa.nulls(rows, pa.binary())
        bounds = self._bounds[: rows + 1]
        # Whoever keeps the column keeps no more than its bytes.
        self._data.resize(int(bounds[rows]), shrink_to_fit=True)
        present = validity(~nulls) if null_count else None
        return pa.Array.from_buffers(pa.binary(), rows, [present, pa.py_buffer(bounds), self._data], null_count)
