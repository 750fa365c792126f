"""The walk over records, compiled and in Python: the same records from the same bytes, the same refusals."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.model.errors import ProtocolError
from tidelog.wire import record_walk
from tidelog.wire.batch import HEADER_BYTES
from tidelog.wire.records import Record, build_batch, walk_records

OPTIONAL_BYTES = st.none() | st.binary(max_size=200)
HEADERS = st.lists(st.tuples(st.text(max_size=10), OPTIONAL_BYTES), max_size=3).map(tuple)
TIMESTAMPS = st.integers(-(2**62), 2**62 - 1) | st.integers(1_600_000_000_000, 1_600_000_001_000)
RECORDS = st.lists(st.builds(Record, st.just(0), TIMESTAMPS, OPTIONAL_BYTES, OPTIONAL_BYTES, HEADERS), min_size=1)
DAMAGE = st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=3)


def outcome(walk: Any, body: bytes, count: int, base_timestamp: int, first_offset: int) -> Any:
    try:
        return walk(body, count, 100, base_timestamp, None, first_offset, Record)
    except ProtocolError as error:
        return str(error)


@given(records=RECORDS, damage=DAMAGE, first_offset=st.sampled_from([-(2**63), 0, 101, 10**6]))
def test_compiled_and_in_python_it_finds_the_same(
    records: list[Record], damage: list[tuple[int, int]], first_offset: int
) -> None:
    body = bytearray(build_batch(records)[HEADER_BYTES:])
    for place, byte in damage:
        body[place % len(body)] = byte
    for count in (len(records), len(records) + 1):
        arguments = (bytes(body), count, records[0].timestamp, first_offset)
        assert outcome(walk_records, *arguments) == outcome(record_walk.walk_records, *arguments)


@given(records=RECORDS)
def test_what_was_written_is_read(records: list[Record]) -> None:
    found = record_walk.walk_records(
        build_batch(records)[HEADER_BYTES:], len(records), 7, records[0].timestamp, None, 0, Record
    )
    assert [record.offset for record in found] == list(range(7, 7 + len(records)))
    for record, written in zip(found, records, strict=True):
        assert (record.timestamp, record.key, record.value) == (written.timestamp, written.key, written.value)
        assert record.headers == written.headers


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"\x0c\x00" + b"\x80" * 9 + b"\x02" + b"\x00" * 8, "varint"),
        (b"\x80\x80\x80\x80\x80\x01" + b"\x00" * 8, "varint"),
        (b"\x0c\x00\x00\x00\x7e\x00\x00", "reaches beyond"),
        (b"\x0c\x00\x00\x00\x01\x01\x05", "headers"),
        (b"\x01\x00\x00\x00\x01\x01\x00", "does not fit"),
        (b"\x0c\x00\x00\x00\x01\x01\x00\x00", "follow the last"),
    ],
)
def test_what_is_no_record_is_refused(body: bytes, sentence: str) -> None:
    for walk in (walk_records, record_walk.walk_records):
        with pytest.raises(ProtocolError, match=sentence):
            walk(body, 1, 0, 0, None, 0, Record)
