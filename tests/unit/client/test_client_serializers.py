"""Serializers: names, objects, functions, and the formats that have libraries of their own."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from google.protobuf.wrappers_pb2 import Int64Value, StringValue

from tidelog.client.core.serializers import JsonSerializer, StringSerializer, from_bytes, to_bytes
from tidelog.client.errors import InvalidOption, SerializationFailed
from tidelog.client.formats.avro import AvroSerializer
from tidelog.client.formats.protobuf import ProtobufSerializer

SCHEMA = {
    "type": "record",
    "name": "Tide",
    "fields": [{"name": "station", "type": "string"}, {"name": "metres", "type": "double"}],
}


class Tide(msgspec.Struct):
    station: str
    metres: float


@pytest.mark.req("H2")
@pytest.mark.parametrize(
    ("given", "data"),
    [
        ("string", "höhe"),
        (StringSerializer, "text"),
        ("json", {"a": [1, None]}),
        (AvroSerializer(SCHEMA), {"station": "Cuxhaven", "metres": 1.5}),
        (ProtobufSerializer(StringValue), StringValue(value="x")),
    ],
)
def test_what_goes_in_comes_out_and_none_stays_none(given: Any, data: Any) -> None:
    write, read = to_bytes(given), from_bytes(given)
    assert write is not None and read is not None
    encoded = write("t", data)
    assert isinstance(encoded, bytes)
    assert read("t", encoded) == data
    assert write("t", None) is None and read("t", None) is None


def test_json_reads_into_the_type_that_is_wanted() -> None:
    read = from_bytes(JsonSerializer(Tide))
    assert read is not None
    assert read("t", b'{"station":"Husum","metres":2}') == Tide("Husum", 2.0)


def test_a_plain_function_will_do_and_bytes_need_none() -> None:
    write, read = to_bytes(lambda number: b"%d" % number), from_bytes(int)
    assert write is not None and write("t", 7) == b"7"
    assert read is not None and read("t", b"7") == 7
    assert to_bytes(None) is None and to_bytes("bytes") is None


def test_avro_reads_with_a_newer_schema() -> None:
    newer = {**SCHEMA, "fields": [*SCHEMA["fields"], {"name": "unit", "type": "string", "default": "m"}]}  # type: ignore[misc]
    encoded = AvroSerializer(SCHEMA).serialize("t", {"station": "List", "metres": 0.5})
    assert AvroSerializer(SCHEMA, newer).deserialize("t", encoded)["unit"] == "m"


@pytest.mark.parametrize(
    ("given", "data"),
    [
        ("string", 5),
        ("json", object()),
        (AvroSerializer(SCHEMA), {"station": 5}),
        (ProtobufSerializer(StringValue), Int64Value(value=1)),
    ],
)
def test_what_does_not_fit_is_one_kind_of_failure(given: Any, data: Any) -> None:
    write = to_bytes(given)
    assert write is not None
    with pytest.raises(SerializationFailed):
        write("t", data)


def test_what_is_no_serializer_is_refused() -> None:
    with pytest.raises(InvalidOption, match="There is no serializer"):
        to_bytes("yaml")
    with pytest.raises(InvalidOption, match="no serializer"):
        to_bytes(5)
