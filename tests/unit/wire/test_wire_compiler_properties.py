"""Whatever is written is read back; whatever else is read is refused, quickly and without growing."""

from __future__ import annotations

import tracemalloc
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from protocol_facts import declared_messages
from random_messages import random_message
from sample_messages import (
    SAMPLE_VERSIONS,
    Arrays,
    Empties,
    Empty,
    Nullables,
    Plain,
    PlainTopic,
    Scalars,
    Tagged,
    Usual,
    messages,
    versions_of,
)

from tidelog.wire.compiler import MalformedMessage, decode, encode, reader
from tidelog.wire.primitives import ELEMENTS_MAX, uvarint
from tidelog.wire.schema import Message

sample_versions = pytest.mark.parametrize(
    ("message", "version"),
    SAMPLE_VERSIONS,
    ids=[f"{message.__name__} v{version}" for message, version in SAMPLE_VERSIONS],
)


@sample_versions
@settings(max_examples=30)
@given(data=st.data())
def test_what_is_written_is_read_back(message: type[Message], version: int, data: st.DataObject) -> None:
    written = data.draw(messages(message, version))
    encoded = encode(written, version)
    around = memoryview(b"before" + encoded + b"behind")
    assert reader(message, version)(around, 6) == (written, 6 + len(encoded))


@sample_versions
@settings(max_examples=30)
@given(data=st.data())
def test_a_message_that_is_cut_short_is_malformed(message: type[Message], version: int, data: st.DataObject) -> None:
    encoded = encode(data.draw(messages(message, version)), version)
    if encoded:
        kept = data.draw(st.integers(0, len(encoded) - 1))
        with pytest.raises(MalformedMessage):
            decode(message, version, encoded[:kept])


@sample_versions
@settings(max_examples=30)
@given(data=st.binary(max_size=200))
def test_any_bytes_are_a_message_or_malformed(message: type[Message], version: int, data: bytes) -> None:
    read_or_refused(message, version, data)


@sample_versions
@settings(max_examples=30)
@given(data=st.data())
def test_a_damaged_message_is_a_message_or_malformed(message: type[Message], version: int, data: st.DataObject) -> None:
    encoded = bytearray(encode(data.draw(messages(message, version)), version))
    for _ in range(data.draw(st.integers(1, 4))):
        if encoded:
            encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
    read_or_refused(message, version, bytes(encoded))


def read_or_refused(message: type[Message], version: int, data: bytes) -> None:
    try:
        _, position = reader(message, version)(memoryview(data), 0)
    except MalformedMessage:
        return
    assert 0 <= position <= len(data)


@pytest.mark.parametrize("name", sorted(declared_messages()))
def test_random_bytes_are_a_real_message_or_malformed(name: str) -> None:
    message = declared_messages()[name]
    for version in versions_of(message):
        random = Random(f"{name} {version}")
        for _ in range(20):
            read_or_refused(message, version, random.randbytes(random.randrange(100)))
            # Small numbers get further, as most of them are possible lengths.
            read_or_refused(message, version, bytes(random.choices(range(4), k=random.randrange(100))))


@pytest.mark.parametrize("name", sorted(declared_messages()))
def test_a_damaged_real_message_is_a_message_or_malformed(name: str) -> None:
    message = declared_messages()[name]
    for version in versions_of(message):
        encoded = encode(random_message(message, version, seed=1), version)
        random = Random(f"{name} {version}")
        for _ in range(20 if encoded else 0):
            damaged = bytearray(encoded)
            damaged[random.randrange(len(encoded))] = random.choice((0, 1, 0x7F, 0x80, 0xFF))
            read_or_refused(message, version, bytes(damaged[: random.randint(1, 2 * len(encoded))]))


HUGE = 2**31 - 1


@pytest.mark.parametrize(
    ("message", "version", "begin"),
    [
        (Arrays, 0, HUGE.to_bytes(4, "big")),
        (Arrays, 2, uvarint(HUGE)),
        (Arrays, 0, bytes(4) + HUGE.to_bytes(4, "big")),
        (Arrays, 2, b"\x01" + uvarint(HUGE)),
        (Arrays, 0, bytes(12) + HUGE.to_bytes(4, "big")),
        (Arrays, 2, b"\x01\x01\x01" + uvarint(HUGE)),
        (Empties, 0, HUGE.to_bytes(4, "big")),
        (Nullables, 2, b"\x01\x01" + uvarint(HUGE)),
        (Nullables, 2, uvarint(HUGE)),
        (Nullables, 1, b"\x00\x00" + HUGE.to_bytes(4, "big")),
        (Tagged, 1, bytes(4) + b"\x01" + uvarint(HUGE)),
        (Tagged, 1, bytes(4) + b"\x01\x01\x01" + uvarint(HUGE) + uvarint(HUGE)),
        (Tagged, 1, bytes(4) + b"\x01\x01\x05" + uvarint(HUGE)),
        (Scalars, 1, bytes(30) + uvarint(HUGE)),
        (Usual, 2, b"\x00\x00\x00" + uvarint(HUGE)),
    ],
)
def test_a_huge_length_takes_no_memory(message: type[Message], version: int, begin: bytes) -> None:
    data = begin + b"\x02" * 1000
    read_or_refused(message, version, data)  # Compiles the reader.
    tracemalloc.start()
    with pytest.raises(MalformedMessage):
        decode(message, version, data)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 400_000


def test_the_elements_of_a_message_are_bounded_in_all() -> None:
    half = uvarint(ELEMENTS_MAX // 2 + 2)
    names, blobs = half + b"\x01" * (ELEMENTS_MAX // 2 + 1), half + b"\x01" * (ELEMENTS_MAX // 2 + 1)
    none = b"\x01"
    behind = b"\x01\x01\x00"
    assert len(decode(Arrays, 2, names + none + none + behind).names) == ELEMENTS_MAX // 2 + 1
    with pytest.raises(MalformedMessage, match="at most"):
        decode(Arrays, 2, names + none + blobs + behind)


def test_null_arrays_do_not_raise_the_bound() -> None:
    begin = b"\xff\xff\x00\x00\x00\x00\x00\x02"
    name_and_id = b"\x00\x00" + bytes(16)
    null = (-(2**31)).to_bytes(4, "big", signed=True)
    too_many = (ELEMENTS_MAX + 1).to_bytes(4, "big")
    assert decode(Plain, 1, begin + (name_and_id + null) * 2 + b"\x00\x00") == Plain(
        topics=[PlainTopic(partitions=None), PlainTopic(partitions=None)]
    )
    with pytest.raises(MalformedMessage, match="at most"):
        decode(Plain, 1, begin + name_and_id + null + name_and_id + too_many)


def test_structs_without_content_are_counted_against_the_bytes_that_are_left() -> None:
    assert decode(Empties, 0, b"\x00\x00\x00\x02??") == Empties([Empty(), Empty()])
    with pytest.raises(MalformedMessage):
        decode(Empties, 0, b"\x00\x00\x00\x03??")
