"""JSON objects to columns by Arrow's own reader: no Python object for a record.

Each value becomes the one field of an object on its own line. A line begins with `{"v":`, which no value that was left
open before it can take in, so as many rows as lines means that each line is one row. Where that does not hold, or a
value is no JSON of this schema, what is seen to be none at a look is sorted out (`json_screen.py`), and halves of the
rest are tried until the bad rows stand alone.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.json as pj  # type: ignore[import-untyped]

from tidelog.client.typed.decoding import TypedValues
from tidelog.client.typed.format import InvalidFormat
from tidelog.client.typed.json_screen import JsonScreen

_FIELD: Final = "v"
_BEFORE: Final = b'{"v":'
_AFTER: Final = b"}\n"
# Arrow reads a text in blocks and must be told of one that holds all of it.
BLOCK_BYTES_MIN: Final = 4096


class JsonDecoder:
    """Objects with the fields of a struct; others are ignored, missing ones are null."""

    def __init__(self, type_: Any) -> None:
        self.type = type_
        # Made when it is needed: most topics have no bad values.
        self._made_screen: JsonScreen | None = None
        self._options = pj.ParseOptions(
            explicit_schema=pa.schema([(_FIELD, type_)]),
            unexpected_field_behavior="ignore",
            newlines_in_values=True,
        )
        try:
            self._parsed(pa.array([b"{}"], pa.binary()))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InvalidFormat(f"JSON cannot be read as {type_}: {error}") from None

    def decode(self, packed: Any) -> TypedValues:
        if not len(packed):
            return TypedValues(pa.nulls(0, self.type), {})
        try:
            return TypedValues(self._parsed(packed), {})
        except pa.ArrowInvalid:
            bad = {row: _reason(said) for row, said in self._screen().bad(packed.to_pylist()).items()}
        rows = [row for row in range(len(packed)) if row not in bad]
        usable = packed.take(pa.array(rows, pa.int64()))
        misfits: dict[int, str] = {}
        parts = self._parts(usable, 0, misfits)
        bad |= {rows[place]: reason for place, reason in misfits.items()}
        places = {row: place for place, row in enumerate(rows)}
        return TypedValues(
            pa.concat_arrays(parts).take(pa.array([places.get(row) for row in range(len(packed))], pa.int64())), bad
        )

    def _screen(self) -> JsonScreen:
        if self._made_screen is None:
            self._made_screen = JsonScreen(self.type)
        return self._made_screen

    def _parts(self, packed: Any, first: int, bad: dict[int, str]) -> list[Any]:
        if not len(packed):
            return [pa.nulls(0, self.type)]
        try:
            return [self._parsed(packed)]
        except pa.ArrowInvalid as error:
            if len(packed) == 1:
                bad[first] = _reason(str(error))
                return [pa.nulls(1, self.type)]
        half = len(packed) // 2
        return self._parts(packed[:half], first, bad) + self._parts(packed[half:], first + half, bad)

    def _parsed(self, packed: Any) -> Any:
        lines = pc.binary_join_element_wise(_BEFORE, packed, _AFTER, b"")
        lines.cast(pa.string())  # Arrow's reader would let pass what is no text.
        _, _, data = lines.buffers()
        table = pj.read_json(
            pa.BufferReader(data),
            read_options=pj.ReadOptions(use_threads=False, block_size=max(data.size, BLOCK_BYTES_MIN)),
            parse_options=self._options,
        )
        if table.num_rows != len(packed):
            raise pa.ArrowInvalid(f"{len(packed)} values have {table.num_rows} objects")
        return table.column(_FIELD).combine_chunks()


def _reason(said: str) -> str:
    """Arrow's sentence without our field and row."""
    text = said.removeprefix("JSON parse error: ").replace(f"Column(/{_FIELD}/", "Column(/").replace(" in row 0", "")
    return "it is no JSON object of the schema: " + text.rstrip(".")
