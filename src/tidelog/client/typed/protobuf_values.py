"""Protocol Buffers to columns, by Google's own library: messages of one type from a set of descriptors.

There is a message object for each record on the way, and none for a field of it: a column is taken at a time. Enums are
their names, as Spark's own reader of Protobuf has them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]

from tidelog.client.typed.decoding import TypedValues
from tidelog.client.typed.format import InvalidFormat

TIMESTAMP: Final = "google.protobuf.Timestamp"
NANOS_IN_MICRO: Final = 1000
MICROS_IN_SECOND: Final = 1_000_000


class ProtobufDecoder:
    """Messages of one type."""

    def __init__(self, descriptors: bytes, message: str, has_registry_prefix: bool = False) -> None:
        try:
            from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
            from google.protobuf.message import DecodeError
        except ImportError:
            raise InvalidFormat("Protobuf needs a library: pip install 'tidelog[protobuf]'") from None
        pool = descriptor_pool.DescriptorPool()
        try:
            for file in descriptor_pb2.FileDescriptorSet.FromString(descriptors).file:
                pool.Add(file)
            found = pool.FindMessageTypeByName(message)
        except KeyError:
            raise InvalidFormat(f"the descriptors have no message '{message}'") from None
        except (DecodeError, TypeError) as error:
            raise InvalidFormat(f"the descriptors cannot be used: {error}") from None
        self._failure: type[Exception] = DecodeError
        self._parse: Callable[[bytes], Any] = message_factory.GetMessageClass(found).FromString
        self._empty = message_factory.GetMessageClass(found)()
        self._has_registry_prefix = has_registry_prefix
        self._columns = _Columns()
        self.type = self._columns.struct_of(found, ())
        self._descriptor = found

    def decode(self, packed: Any) -> TypedValues:
        bad: dict[int, str] = {}
        messages = [self._message(row, raw, bad) for row, raw in enumerate(packed.to_pylist())]
        mask = [message is None for message in messages] if bad else None
        whole = [self._empty if message is None else message for message in messages] if bad else messages
        return TypedValues(self._columns.array(self._descriptor, whole, mask), bad)

    def _message(self, row: int, raw: bytes, bad: dict[int, str]) -> Any:
        try:
            return self._parse(_without_indexes(raw) if self._has_registry_prefix else raw)
        except (self._failure, IndexError) as error:
            bad[row] = f"it is no Protobuf of the message: {error}"
            return None


def _without_indexes(raw: bytes) -> bytes:
    """What follows a registry's list of numbers, which say the message within its file: a count, then as many, as
    varints with a zigzag. A single zero stands for the first message."""
    position, count, shift = 0, 0, 0
    while True:
        byte = raw[position]
        count |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            break
    for _ in range(count >> 1):
        while raw[position] >= 0x80:
            position += 1
        position += 1
    return raw[position:]


class _Columns:
    """Descriptors to Arrow types, and messages to arrays of them."""

    def struct_of(self, message: Any, outer: tuple[str, ...]) -> Any:
        if message.full_name in outer:
            raise InvalidFormat(f"the message {message.full_name} holds itself, which no column can")
        outer = (*outer, message.full_name)
        return pa.struct([pa.field(field.name, self._type(field, outer)) for field in message.fields])

    def _type(self, field: Any, outer: tuple[str, ...]) -> Any:
        if _is_map(field):
            pair = field.message_type.fields_by_name
            return pa.map_(self._one_type(pair["key"], outer), self._one_type(pair["value"], outer))
        one = self._one_type(field, outer)
        return pa.list_(one) if field.is_repeated else one

    def _one_type(self, field: Any, outer: tuple[str, ...]) -> Any:
        if field.message_type is None:
            return pa.string() if field.enum_type is not None else _SCALARS[field.type]
        if field.message_type.full_name == TIMESTAMP:
            return pa.timestamp("us", "UTC")
        return self.struct_of(field.message_type, outer)

    def array(self, message: Any, rows: Sequence[Any], mask: Sequence[bool] | None = None) -> Any:
        """A struct array with a row for each message."""
        type_ = self.struct_of(message, ())
        arrays = [self._column(field, rows, type_.field(field.name).type) for field in message.fields]
        absent = None if mask is None else pa.array(mask, pa.bool_())
        return pa.StructArray.from_arrays(arrays, fields=list(type_), mask=absent)

    def _column(self, field: Any, rows: Sequence[Any], type_: Any) -> Any:
        name = field.name
        if _is_map(field):
            plain = self._plain(field.message_type.fields_by_name["value"])
            return pa.array([[(key, plain(each)) for key, each in getattr(row, name).items()] for row in rows], type_)
        if field.is_repeated:
            plain = self._plain(field)
            return pa.array([[plain(each) for each in getattr(row, name)] for row in rows], type_)
        if field.message_type is not None and field.message_type.full_name != TIMESTAMP:
            absent = [not row.HasField(name) for row in rows]
            return self.array(field.message_type, [getattr(row, name) for row in rows], absent)
        if field.message_type is None and field.enum_type is None:
            if field.has_presence:
                return pa.array([getattr(row, name) if row.HasField(name) else None for row in rows], type_)
            return pa.array([getattr(row, name) for row in rows], type_)
        plain = self._plain(field)
        if field.has_presence:
            return pa.array([plain(getattr(row, name)) if row.HasField(name) else None for row in rows], type_)
        return pa.array([plain(getattr(row, name)) for row in rows], type_)

    def _plain(self, field: Any) -> Callable[[Any], Any]:
        """How one element of a field becomes what Arrow takes."""
        if field.message_type is not None:
            if field.message_type.full_name == TIMESTAMP:
                return lambda moment: moment.seconds * MICROS_IN_SECOND + moment.nanos // NANOS_IN_MICRO
            inner = field.message_type
            return lambda row: self.array(inner, [row]).to_pylist()[0]
        if field.enum_type is not None:
            names = {value.number: value.name for value in field.enum_type.values}
            return lambda number: names.get(number, str(number))
        return lambda value: value


def _is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


# By the numbers of FieldDescriptorProto.Type. What has no sign is made room for.
_SCALARS: Final = {
    1: pa.float64(),
    2: pa.float32(),
    3: pa.int64(),
    4: pa.decimal128(20, 0),
    5: pa.int32(),
    6: pa.decimal128(20, 0),
    7: pa.int64(),
    8: pa.bool_(),
    9: pa.string(),
    12: pa.binary(),
    13: pa.int64(),
    15: pa.int32(),
    16: pa.int64(),
    17: pa.int32(),
    18: pa.int64(),
}
