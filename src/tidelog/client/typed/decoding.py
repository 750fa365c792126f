"""Bytes of values to an Arrow struct: drops what is null, takes off a registry's prefix, lets the format's decoder do
the rest, and puts every row back in its place.

A row that cannot be read is null and has a reason; who calls decides whether that fails, drops or keeps it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from tidelog.client.typed.format import AVRO, JSON, PROTOBUF, ValueFormat
from tidelog.wire.columns.arrays import BINARY_BYTES_MAX

# Magic byte 0 and the number of a schema in a registry.
REGISTRY_PREFIX_BYTES: Final = 5


class TypedValues(NamedTuple):
    """One row for each value, null where there was none or it is bad; and why, by row."""

    values: Any
    bad: Mapping[int, str]


class Decoder(Protocol):
    """What a format does."""

    @property
    def type(self) -> Any:
        """The pyarrow.StructType of what comes out."""
        ...

    def decode(self, packed: Any) -> TypedValues:
        """Values none of which is null."""
        ...


def decoder_of(format_: ValueFormat, json_type: Any = None) -> Decoder:
    """The decoder of a format. `json_type` is the struct of JSON's columns, which its schema says in SQL."""
    match format_.name:
        case name if name == JSON:
            from tidelog.client.typed.json_values import JsonDecoder

            return JsonDecoder(json_type)
        case name if name == AVRO:
            from tidelog.client.typed.avro_values import AvroDecoder

            return AvroDecoder(format_.schema)
        case name:
            assert name == PROTOBUF, name
            from tidelog.client.typed.protobuf_values import ProtobufDecoder

            return ProtobufDecoder(format_.descriptors, format_.message, format_.has_registry_prefix)


def decode_values(decoder: Decoder, values: Any, has_registry_prefix: bool) -> TypedValues:
    """A pyarrow.BinaryArray of values as a struct array of as many rows."""
    present = np.flatnonzero(pc.is_valid(values).to_numpy(zero_copy_only=False))
    packed = values if len(present) == len(values) else values.drop_null()
    bad: dict[int, str] = {}
    if has_registry_prefix:
        has_prefix = pc.equal(pc.binary_slice(packed, 0, 1), b"\0")
        is_long = pc.greater_equal(pc.binary_length(packed), REGISTRY_PREFIX_BYTES)
        is_good = pc.and_(has_prefix, is_long).to_numpy(zero_copy_only=False)
        for row in present[~is_good]:
            bad[int(row)] = "it does not begin with a registry's prefix (a zero and four bytes)"
        present = present[is_good]
        # Without an end Arrow reckons with one that overflows.
        packed = pc.binary_slice(packed.filter(pa.array(is_good)), REGISTRY_PREFIX_BYTES, BINARY_BYTES_MAX)
    found = decoder.decode(packed)
    bad.update((int(present[row]), reason) for row, reason in found.bad.items())
    if len(present) == len(values):
        return TypedValues(found.values, bad)
    places = np.zeros(len(values), np.int64)
    places[present] = np.arange(len(present))
    is_absent = np.ones(len(values), bool)
    is_absent[present] = False
    return TypedValues(found.values.take(pa.array(places, mask=is_absent)), bad)
