"""The options that make typed columns of values: `valueFormat`, its schema, and what happens to rows that do not fit.

`options.py` calls it for both readers. Reads the schema's file, in the driver, so that tasks need not have it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tidelog.client.typed.format import PLAIN, InvalidFormat, ValueFormat, value_format
from tidelog.spark.errors import InvalidOption

PERMISSIVE: Final = "PERMISSIVE"
FAILFAST: Final = "FAILFAST"
DROPMALFORMED: Final = "DROPMALFORMED"
MODES: Final = (PERMISSIVE, FAILFAST, DROPMALFORMED)
FORMAT_OPTION: Final = "valueFormat"
# Options that say nothing without a format.
DEPENDENT: Final = ("valueSchema", "valueSchemaFile", "valueMessage", "valueWireFormat", "flatten", "mode")
CORRUPT_OPTION: Final = "columnNameOfCorruptRecord"


@dataclass(frozen=True, slots=True)
class TypedOptions:
    """How values are read as columns."""

    format: ValueFormat
    # Whether the fields of a value are columns of their own instead of those of a struct.
    flatten: bool
    mode: str
    # The column that has the bytes of a value that could not be read.
    corrupt_column: str | None


def parse_typed_options(text: Callable[[str], str | None]) -> TypedOptions | None:
    """None when no format is named: values are bytes. InvalidOption says what cannot be."""
    name = text(FORMAT_OPTION)
    if name is None:
        idle = [option for option in (*DEPENDENT, CORRUPT_OPTION) if text(option) is not None]
        if idle:
            raise InvalidOption(f"Option {idle[0]} needs option {FORMAT_OPTION}: without one, values are bytes.")
        return None
    mode = (text("mode") or PERMISSIVE).upper()
    if mode not in MODES:
        raise InvalidOption(f"Option mode is one of {', '.join(MODES)}, not '{mode}'.")
    flatten = (text("flatten") or "false").lower()
    if flatten not in ("true", "false"):
        raise InvalidOption(f"Option flatten is true or false, not '{flatten}'.")
    corrupt = text(CORRUPT_OPTION)
    if corrupt is not None and mode != PERMISSIVE:
        raise InvalidOption(f"Option {CORRUPT_OPTION} is for mode {PERMISSIVE}: {mode} keeps no bad row.")
    wire = (text("valueWireFormat") or PLAIN).lower()
    try:
        found = value_format(name.lower(), text("valueSchema"), text("valueSchemaFile"), text("valueMessage"), wire)
    except InvalidFormat as error:
        raise InvalidOption(f"Option {FORMAT_OPTION}: {error}.") from None
    return TypedOptions(found, flatten == "true", mode, corrupt)
