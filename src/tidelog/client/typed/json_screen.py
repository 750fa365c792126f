"""Finds JSON values that Arrow's reader would refuse, each at the cost of a look: few are left to try one by one.

`json_values.py` asks it once a batch was refused. It never calls bad what Arrow takes; what it lets pass may be bad.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Final

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]

# Arrow takes these words of JavaScript as numbers, which JSON does not have.
_NO_JSON_NUMBERS: Final = (b"NaN", b"Inf")


class JsonScreen:
    """What objects have to be to become a struct of Arrow's."""

    def __init__(self, type_: Any) -> None:
        names = [field.name for field in type_]
        self._places = [f"field_{place}" for place in range(len(names))]
        self._check = msgspec.json.Decoder(_object(type_)).decode
        self._times = [
            (place, field.name, field.type)
            for place, field in zip(self._places, type_, strict=True)
            if pa.types.is_timestamp(field.type)
        ]

    def bad(self, texts: Sequence[bytes]) -> dict[int, str]:
        """The rows that cannot be read, each with why."""
        bad: dict[int, str] = {}
        objects: list[Any] = []
        rows: list[int] = []
        for row, text in enumerate(texts):
            try:
                objects.append(self._check(text))
                rows.append(row)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                if not any(word in text for word in _NO_JSON_NUMBERS):
                    bad[row] = str(error)
        for place, name, type_ in self._times:
            times = pa.array([getattr(each, place) for each in objects], pa.string())
            for at in _no_times(times, 0, type_):
                bad.setdefault(rows[at], f"Column(/{name}) has {times[at].as_py()!r}, which is no time")
        return bad


def _no_times(texts: Any, first: int, type_: Any) -> Iterable[int]:
    """Where texts are no times, by halves. To cast, Arrow wants either all with a zone or all without."""
    if not len(texts):
        return
    for zone in (None, "UTC"):
        try:
            texts.cast(pa.timestamp(type_.unit, zone))
            return
        except pa.ArrowInvalid:
            pass
    if len(texts) == 1:
        yield first
        return
    half = len(texts) // 2
    yield from _no_times(texts[:half], first, type_)
    yield from _no_times(texts[half:], first + half, type_)


def _object(type_: Any) -> Any:
    """The class of objects with the fields of an Arrow struct; names need not be Python's."""
    places = {f"field_{place}": field for place, field in enumerate(type_)}
    return msgspec.defstruct(
        "Screened",
        [(place, _expected(field.type), None) for place, field in places.items()],
        rename={place: field.name for place, field in places.items()},
    )


def _expected(type_: Any) -> Any:
    """What msgspec has to find for a type of Arrow's; anything where the two might not agree."""
    if pa.types.is_boolean(type_):
        return bool | None
    if pa.types.is_integer(type_) or pa.types.is_date32(type_):
        return _integer(type_) | None
    if pa.types.is_floating(type_):
        return float | None
    if any(test(type_) for test in (pa.types.is_string, pa.types.is_binary, pa.types.is_timestamp)):
        return str | None
    if pa.types.is_list(type_):
        return list[_expected(type_.value_type)] | None  # type: ignore[misc]
    if pa.types.is_struct(type_):
        return _object(type_) | None
    # Null, too, is raw; in a union msgspec would take nothing else.
    return msgspec.Raw


def _integer(type_: Any) -> Any:
    if pa.types.is_unsigned_integer(type_):
        return Annotated[int, msgspec.Meta(ge=0)]
    limit = 2 ** (type_.bit_width - 1)
    return Annotated[int, msgspec.Meta(ge=-limit, le=limit - 1)]
