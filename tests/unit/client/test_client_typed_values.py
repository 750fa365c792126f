"""Values as typed columns: JSON, Avro and Protobuf in, Arrow out; every bad row is found, and only those."""

from __future__ import annotations

import io
import json
import random
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.client.typed.decoding import decode_values, decoder_of
from tidelog.client.typed.format import InvalidFormat, ValueFormat, value_format
from tidelog.client.typed.json_values import JsonDecoder

ORDER = pa.struct([("id", pa.int64()), ("city", pa.string())])
AVRO: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {"name": "to", "type": {"type": "record", "name": "Place", "fields": [{"name": "city", "type": "string"}]}},
        {"name": "from", "type": ["null", "Place"]},
    ],
}


def json_values(*texts: bytes | None, type_: Any = ORDER) -> tuple[list[Any], list[int]]:
    found = decode_values(JsonDecoder(type_), pa.array(texts, pa.binary()), False)
    return found.values.to_pylist(), sorted(found.bad)


def test_json_objects_become_columns_missing_fields_are_null_and_others_are_ignored() -> None:
    rows, bad = json_values(b'{"id": 1, "city": "Brest", "x": [1]}', None, b"{}", b'{\n "id": 2\n}', b" {} ")

    empty = {"id": None, "city": None}
    assert rows == [{"id": 1, "city": "Brest"}, None, empty, {"id": 2, "city": None}, empty]
    assert bad == []


@pytest.mark.parametrize(
    "broken",
    [b"", b" ", b"nonsense", b"{", b'{"id": 1', b'{"id": "one"}', b"[1]", b"7",
     b'{"id":1}{"id":2}', b'{"id":1}\n{"id":2}',
     b'{"id":1}}\n{"v":{"id":2}', b'"', b"\xff\xfe", b'{"id":1}\n'+b'{"v":', b'{"id":99999999999999999999}'],
)  # fmt: skip
def test_json_that_is_none_of_the_schema_is_found_among_good_rows(broken: bytes) -> None:
    good = [b'{"id": %d}' % number for number in range(20)]
    texts = [*good[:7], broken, *good[7:13], broken, *good[13:]]

    rows, bad = json_values(*texts)

    assert bad == [7, 14]
    assert [row["id"] for row in rows if row is not None] == list(range(20))
    assert rows[7] is None and rows[14] is None


@settings(max_examples=25)
@given(st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.binary(max_size=30)), max_size=12))
def test_json_rows_never_move(values: list[int | bytes | None]) -> None:
    """Whatever bytes stand between them, good values come out where they went in."""
    texts = [b'{"id": %d}' % value if isinstance(value, int) else value for value in values]

    rows, bad = json_values(*texts)

    for place, value in enumerate(values):
        if isinstance(value, int):
            assert rows[place] == {"id": value, "city": None} and place not in bad
        elif value is None:
            assert rows[place] is None and place not in bad


def avro(row: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(AVRO))), row)
    return out.getvalue()


def order(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "note": None if number % 2 else "n",
        "at": datetime(2026, 1, 31, 12, 0, number % 60, tzinfo=UTC),
        "day": date(2026, 1, 31),
        "price": Decimal("12.50"),
        "tags": ["a", "b"][: number % 3],
        "state": "PAID",
        "counts": {"x": number},
        "to": {"city": "Vigo"},
        "from": None if number % 2 else {"city": "Brest"},
    }


@pytest.mark.parametrize("prefix", [b"", b"\0\0\0\0\x07"])
def test_avro_records_become_columns_with_and_without_a_registrys_prefix(prefix: bytes) -> None:
    format_ = value_format("avro", json.dumps(AVRO), None, None, "confluent" if prefix else "plain")
    values: list[bytes | None] = [prefix + avro(order(number)) for number in range(10)]
    values[3:3] = [None, prefix + avro(order(3))[:-2], prefix + avro(order(3)) + b"x", b"\1" + prefix]

    found = decode_values(decoder_of(format_), pa.array(values, pa.binary()), format_.has_registry_prefix)

    assert sorted(found.bad) == [4, 5, 6]
    rows = found.values.to_pylist()
    assert rows[3:7] == [None] * 4
    assert rows[:3] + rows[7:] == [{**order(number), "counts": [("x", number)]} for number in range(10)]
    assert "1 bytes follow the record" in found.bad[5]
    if prefix:
        assert "registry's prefix" in found.bad[6]


def test_avro_that_is_broken_anywhere_never_harms_its_neighbours() -> None:
    drawn = random.Random(1)
    decoder = decoder_of(ValueFormat("avro", json.dumps(AVRO)))
    good = avro(order(1))
    for _ in range(300):
        broken = bytearray(good)
        broken[drawn.randrange(len(broken))] = drawn.randrange(256)
        values = [good, bytes(broken[: drawn.randrange(1, len(broken) + 1)]), good]
        rows = decode_values(decoder, pa.array(values, pa.binary()), False).values.to_pylist()
        assert rows[0] == rows[2] == {**order(1), "counts": [("x", 1)]}


def descriptors() -> bytes:
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    kinds = descriptor_pb2.FieldDescriptorProto
    state = file.enum_type.add(name="State")
    state.value.add(name="NEW", number=0)
    state.value.add(name="PAID", number=1)
    place = file.message_type.add(name="Place")
    place.field.add(name="city", number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    one = file.message_type.add(name="Order")
    entry = one.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    entry.field.add(name="value", number=2, type=kinds.TYPE_INT32, label=kinds.LABEL_OPTIONAL)
    for number, (name, kind, label, type_name) in enumerate(
        [
            ("id", kinds.TYPE_INT64, kinds.LABEL_OPTIONAL, ""),
            ("large", kinds.TYPE_UINT64, kinds.LABEL_OPTIONAL, ""),
            ("tags", kinds.TYPE_STRING, kinds.LABEL_REPEATED, ""),
            ("state", kinds.TYPE_ENUM, kinds.LABEL_OPTIONAL, ".shop.State"),
            ("at", kinds.TYPE_MESSAGE, kinds.LABEL_OPTIONAL, ".google.protobuf.Timestamp"),
            ("to", kinds.TYPE_MESSAGE, kinds.LABEL_OPTIONAL, ".shop.Place"),
            ("stops", kinds.TYPE_MESSAGE, kinds.LABEL_REPEATED, ".shop.Place"),
            ("counts", kinds.TYPE_MESSAGE, kinds.LABEL_REPEATED, ".shop.Order.CountsEntry"),
        ],
        start=1,
    ):
        one.field.add(name=name, number=number, type=kind, label=label, type_name=type_name or None)
    files = descriptor_pb2.FileDescriptorSet()
    timestamp_pb2.DESCRIPTOR.CopyToProto(files.file.add())
    files.file.append(file)
    return files.SerializeToString()


def protobuf(row: dict[str, Any]) -> bytes:
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(descriptors()).file:
        pool.Add(file)
    kind: Any = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
    return bytes(kind(**row).SerializeToString())


@pytest.mark.parametrize("prefix", [b"", b"\0\0\0\0\x07\0", b"\0\0\0\0\x07\x02\x02"])
def test_protobuf_messages_become_columns_with_and_without_a_registrys_prefix(prefix: bytes) -> None:
    format_ = ValueFormat("protobuf", descriptors=descriptors(), message="shop.Order", has_registry_prefix=bool(prefix))
    whole = {
        "id": 7,
        "large": 2**64 - 1,
        "tags": ["a", "b"],
        "state": 1,
        "at": datetime(2023, 11, 14, 22, 13, 20, 5, tzinfo=UTC),
        "to": {"city": "Vigo"},
        "stops": [{"city": "Brest"}, {}],
        "counts": {"x": 3},
    }
    values = [prefix + protobuf(whole), prefix + protobuf({}), None, prefix + b"\xff\xff", prefix + protobuf({"id": 2})]

    found = decode_values(decoder_of(format_), pa.array(values, pa.binary()), bool(prefix))

    rows = found.values.to_pylist()
    assert rows[0] == {
        "id": 7,
        "large": Decimal(2**64 - 1),
        "tags": ["a", "b"],
        "state": "PAID",
        "at": datetime(2023, 11, 14, 22, 13, 20, 5, tzinfo=UTC),
        "to": {"city": "Vigo"},
        "stops": [{"city": "Brest"}, {"city": ""}],
        "counts": [("x", 3)],
    }
    assert rows[1]["id"] == 0 and rows[1]["to"] is None and rows[1]["at"] is None and rows[1]["state"] == "NEW"
    assert rows[2] is None and rows[3] is None and rows[4]["id"] == 2
    assert sorted(found.bad) == [3]


@pytest.mark.parametrize(
    ("format_", "said"),
    [
        (ValueFormat("avro", "{"), "no JSON"),
        (ValueFormat("avro", '"string"'), "no record"),
        (ValueFormat("avro", '{"type":"record","name":"a","fields":[{"name":"b","type":["int","string"]}]}'), "union"),
        (ValueFormat("avro", '{"type":"record","name":"a","fields":[{"name":"b","type":["null","a"]}]}'), "itself"),
        (ValueFormat("avro", '{"type":"record","name":"a","fields":[{"name":"b","type":"odd"}]}'), "no type odd"),
        (ValueFormat("protobuf", descriptors=b"\xff", message="x"), "cannot be used"),
        (ValueFormat("protobuf", descriptors=descriptors(), message="shop.Nothing"), "no message 'shop.Nothing'"),
    ],
)  # fmt: skip
def test_schemas_that_cannot_be_used_are_refused_with_a_reason(format_: ValueFormat, said: str) -> None:
    with pytest.raises(InvalidFormat, match=said):
        decoder_of(format_)
