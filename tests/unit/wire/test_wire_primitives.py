"""What the compiled codecs call: varints of several bytes, unknown tags, uuids."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.model.errors import ErrorCode
from tidelog.wire import primitives
from tidelog.wire.primitives import (
    LENGTH_MAX,
    MalformedMessage,
    StringReaders,
    StringWriters,
    UnwritableMessage,
    known_uuids,
    read_uvarint,
    remember_uuid,
    skip_tags,
    uvarint,
)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (127, "7f"),
        (128, "8001"),
        (300, "ac02"),
        (16383, "ff7f"),
        (16384, "808001"),
        (LENGTH_MAX, "ffffffff07"),
    ],
)
def test_a_varint_has_seven_bits_a_byte_lowest_first(value: int, encoded: str) -> None:
    assert uvarint(value).hex() == encoded
    assert read_uvarint(memoryview(bytes.fromhex(encoded)), 0) == (value, len(encoded) // 2)


@given(st.integers(0, LENGTH_MAX), st.binary(max_size=3), st.binary(max_size=3))
def test_a_varint_is_read_where_it_stands(value: int, before: bytes, behind: bytes) -> None:
    encoded = uvarint(value)
    buffer = memoryview(before + encoded + behind)
    assert read_uvarint(buffer, len(before)) == (value, len(before) + len(encoded))


def test_a_varint_with_more_bytes_than_it_needs_is_read_as_apache_kafka_does() -> None:
    assert read_uvarint(memoryview(b"\xff\x80\x80\x80\x00"), 0) == (127, 5)


@pytest.mark.parametrize("encoded", ["808080808001", "ffffffffff", "ffffffff0f", "8080808008"])
def test_a_varint_that_is_no_length_is_malformed(encoded: str) -> None:
    with pytest.raises(MalformedMessage) as caught:
        read_uvarint(memoryview(bytes.fromhex(encoded)), 0)
    assert caught.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("value", [-1, LENGTH_MAX + 1])
def test_a_number_that_is_no_length_cannot_be_written(value: int) -> None:
    with pytest.raises(UnwritableMessage):
        uvarint(value)


def test_unknown_tags_are_passed_over() -> None:
    section = b"\x05\x02ab" + b"\x81\x01\x00" + b"\x07\x01c"
    buffer = memoryview(b"\x03" + section + b"next")
    assert skip_tags(buffer, 1, 3) == 1 + len(section)


def test_an_unknown_tag_may_not_reach_behind_the_end() -> None:
    with pytest.raises(MalformedMessage):
        skip_tags(memoryview(b"\x01\x00\x05abcd"), 1, 1)


def test_a_number_of_tags_may_be_a_long_varint() -> None:
    section = b"".join(uvarint(number) + b"\x00" for number in range(200))
    count = uvarint(200)
    buffer = memoryview(count + section)
    assert skip_tags(buffer, 1, count[0]) == len(buffer)


def test_a_uuid_is_made_once() -> None:
    made = uuid4()
    remembered = remember_uuid(made.bytes)
    assert remembered == made
    assert known_uuids.get(made.bytes) is remembered


def test_the_remembered_uuids_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(primitives, "UUID_CACHE_ENTRIES_MAX", 10)
    known_uuids.clear()
    for number in range(100):
        assert remember_uuid(number.to_bytes(16, "big")) == UUID(int=number)
        assert len(known_uuids) <= 10


def test_a_string_is_unpacked_together_with_what_follows() -> None:
    readers = StringReaders("name", compact=True, behind="hB")
    assert readers[4](memoryview(b"abc\xff\xfe\x07"), 0) == (b"abc", -2, 7)


@pytest.mark.parametrize(("compact", "length"), [(True, 0), (False, -1), (False, -32768)])
def test_a_string_that_may_not_be_null_is_not(compact: bool, length: int) -> None:
    with pytest.raises(MalformedMessage, match="name may not be null"):
        StringReaders("name", compact, behind="")[length]


def test_a_string_is_packed_together_with_what_surrounds_it() -> None:
    assert StringWriters("h", compact=True, behind="b")[3](-1, 3, b"ab", 5) == b"\xff\xff\x03ab\x05"
    assert StringWriters("h", compact=False, behind="b")[2](-1, 2, b"ab", 5) == b"\xff\xff\x00\x02ab\x05"
