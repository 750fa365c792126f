"""Arrow batches of the client as rows of Spark: bytes as they are, or values as typed columns.

Both readers hold one; it travels to the executors, where each task makes a decoder of its own. What is wrong with a
value is said with its topic, partition and offset.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type
from pyspark.sql.types import BinaryType, StructField, StructType

from tidelog.client.typed.format import JSON, InvalidFormat
from tidelog.model.ids import TopicPartition
from tidelog.spark.errors import BadValue, InvalidOption
from tidelog.spark.schema import OURS, TYPES, check_schema, chosen_schema, for_spark, full_schema
from tidelog.spark.typed_options import DROPMALFORMED, FAILFAST, TypedOptions
from tidelog.wire.columns.layout import OFFSET, VALUE

if TYPE_CHECKING:
    from tidelog.client.typed.decoding import Decoder, TypedValues

VALUE_COLUMN: Final = "value"
# Times are UTC: Spark 4.1 knows no others, and cannot be told.
IN_UTC: Final[dict[str, Any]] = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_type).parameters else {}
# These names always mean what a topic has, also where a field of its values is called so.
PLAIN_COLUMNS: Final = frozenset(TYPES) - {VALUE_COLUMN}


def typed_schema(typed: TypedOptions, options: Mapping[str, str]) -> StructType | str:
    """The columns that Spark is told of. JSON's are written in SQL, which only Spark itself can read."""
    columns = {name.lower(): value for name, value in options.items()}.get("columns")
    has_headers = options.get("includeHeaders", "false").lower() == "true"
    plain = full_schema(has_headers) if columns is None else chosen_schema(columns)
    corrupt = [] if typed.corrupt_column is None else [StructField(typed.corrupt_column, BinaryType())]
    if typed.format.name == JSON:
        parts = [f"`{field.name}` {field.dataType.simpleString()}" for field in [*plain.fields, *corrupt]]
        place = next((at for at, field in enumerate(plain.fields) if field.name == VALUE_COLUMN), None)
        if place is not None:
            inner = typed.format.schema
            parts[place] = inner if typed.flatten else f"value STRUCT<{inner}>"
        return ", ".join(parts)
    made: Any = from_arrow_type(_decoder(typed, None).type)
    fields = []
    for field in plain.fields:
        if field.name != VALUE_COLUMN:
            fields.append(field)
        elif typed.flatten:
            fields += made.fields
        else:
            fields.append(StructField(VALUE_COLUMN, made))
    return StructType(fields + corrupt)


class RowsForSpark:
    """What the columns of a query are made of."""

    def __init__(self, typed: TypedOptions | None, schema: StructType) -> None:
        self._typed = typed
        self._names: list[str]
        self._value_type: Any = None
        if typed is None:
            self._names = check_schema(schema)
            self.columns = [OURS[name] for name in self._names]
            return
        self._names = schema.fieldNames()
        if len(set(self._names)) < len(self._names):
            twice = next(name for name in self._names if self._names.count(name) > 1)
            raise InvalidOption(f"Column '{twice}' is there twice: leave out option flatten, or name fewer columns.")
        plain = [field for field in schema.fields if field.name in PLAIN_COLUMNS]
        check_schema(StructType(plain))
        self._value_type = _value_type(typed, schema)
        decoder = self._check(typed)
        self._is_decoded = decoder is not None
        wanted = [OURS[field.name] for field in plain]
        # The offset is always there, to say where a bad value is.
        self.columns = list(dict.fromkeys([*wanted, OFFSET, *([VALUE] if decoder is not None else [])]))

    def converted(self, batches: Iterable[Any], partition: TopicPartition) -> Iterator[Any]:
        """The batches with Spark's names and types."""
        if self._typed is None or not self._is_decoded:
            for batch in batches:
                yield for_spark(batch, self._names)
            return
        # Only for typed values: it loads Arrow's functions, which takes as long as the whole of the client.
        from tidelog.client.typed.decoding import decode_values

        decoder = _decoder(self._typed, self._value_type)
        for batch in batches:
            values = batch.column(VALUE)
            found = decode_values(decoder, values, self._typed.format.has_registry_prefix)
            if found.bad and self._typed.mode == FAILFAST:
                row, reason = min(found.bad.items())
                offset = batch.column(OFFSET)[row].as_py()
                message = f"The value of {partition} at offset {offset} cannot be read: {reason}."
                raise BadValue(f"{message} Mode {FAILFAST} ends here; PERMISSIVE and {DROPMALFORMED} go on.")
            made = self._made(batch, found)
            if found.bad and self._typed.mode == DROPMALFORMED:
                keep = np.ones(batch.num_rows, bool)
                keep[list(found.bad)] = False
                made = made.filter(pa.array(keep))
            yield made

    def _made(self, batch: Any, found: TypedValues) -> Any:
        assert self._typed is not None
        plain = [name for name in self._names if name in PLAIN_COLUMNS]
        ready = {VALUE_COLUMN: found.values}
        if self._typed.flatten:
            ready = dict(zip((field.name for field in self._value_type), found.values.flatten(), strict=True))
        if plain:
            ready |= zip(plain, for_spark(batch, plain).columns, strict=True)
        if self._typed.corrupt_column is not None:
            is_good = np.ones(batch.num_rows, bool)
            is_good[list(found.bad)] = False
            raw = batch.column(VALUE)
            ready[self._typed.corrupt_column] = raw.take(pa.array(np.arange(len(raw)), mask=is_good))
        arrays = [ready[name] for name in self._names]
        return pa.RecordBatch.from_arrays(arrays, names=self._names)

    def _check(self, typed: TypedOptions) -> Decoder | None:
        """The decoder, after a look at whether the columns are its own; None when none of them is asked for."""
        foreign = [name for name in self._names if name not in PLAIN_COLUMNS and name != typed.corrupt_column]
        if not typed.flatten and foreign not in ([], [VALUE_COLUMN]):
            name = next(name for name in foreign if name != VALUE_COLUMN)
            raise InvalidOption(f"A topic has no column '{name}'; fields of values need option flatten=true.")
        if not foreign and typed.corrupt_column not in self._names:
            return None
        return _decoder(typed, self._value_type)


def _value_type(typed: TypedOptions, schema: StructType) -> Any:
    """The Arrow struct of values, as the columns say it for JSON, or as the format's own schema does."""
    if typed.flatten:
        asked = StructType(
            [field for field in schema.fields if field.name not in {*PLAIN_COLUMNS, typed.corrupt_column}]
        )
    else:
        found = next((field.dataType for field in schema.fields if field.name == VALUE_COLUMN), StructType([]))
        if not isinstance(found, StructType):
            raise InvalidOption(f"Column 'value' is a struct where valueFormat is given, not {found.simpleString()}.")
        asked = found
    if typed.format.name == JSON:
        return to_arrow_type(asked, **IN_UTC)
    told: Any = _decoder(typed, None).type
    has = {field.name: from_arrow_type(field.type).simpleString() for field in told}
    for field in asked.fields:
        if has.get(field.name) != field.dataType.simpleString():
            right = f"is {has[field.name]}" if field.name in has else "does not exist"
            raise InvalidOption(f"Column '{field.name}' of values {right}, by their schema.")
    if not typed.flatten and asked.fields and len(asked.fields) != len(has):
        raise InvalidOption("Column 'value' has other fields than its schema: name all of them, or use flatten=true.")
    return told


def _decoder(typed: TypedOptions, json_type: Any) -> Decoder:
    from tidelog.client.typed.decoding import decoder_of

    try:
        return decoder_of(typed.format, json_type)
    except InvalidFormat as error:
        raise InvalidOption(f"Option valueFormat: {error}.") from None
