"""Batches of arbitrary records come back as they were; arbitrary bytes never do more than raise a ProtocolError."""

from __future__ import annotations

import struct
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from tidelog.model.errors import ProtocolError
from tidelog.wire.batch import check_produced_batch, iter_headers
from tidelog.wire.compression import Compression
from tidelog.wire.crc import crc32c
from tidelog.wire.records import Record, build_batch, read_records

INT64 = st.integers(-(2**62), 2**62)
HEADERS = st.lists(st.tuples(st.text(max_size=20), st.none() | st.binary(max_size=20)), max_size=4).map(tuple)
RECORD = st.builds(Record, st.just(0), INT64, st.none() | st.binary(max_size=300), st.none() | st.binary(), HEADERS)
BATCH_BYTES_MAX = 1 << 20


@given(st.lists(RECORD, min_size=1, max_size=20), st.sampled_from(list(Compression)), st.integers(0, 2**60))
def test_what_is_built_is_accepted_and_read_back(records: list[Record], codec: Compression, sequence: int) -> None:
    batch = build_batch(records, compression=codec, base_sequence=sequence % 2**31)
    assert check_produced_batch(memoryview(batch), BATCH_BYTES_MAX).records_count == len(records)
    assert read_records(batch) == [
        Record(offset, record.timestamp, record.key, record.value, record.headers)
        for offset, record in enumerate(records)
    ]


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_refused_in_good_order(data: bytes) -> None:
    for read in (lambda: check_produced_batch(memoryview(data), 100), lambda: list(iter_headers(data))):
        with suppress(ProtocolError):
            read()
    with suppress(ProtocolError):
        read_records(data)


@given(
    st.lists(RECORD, min_size=1, max_size=3),
    st.sampled_from(list(Compression)),
    st.lists(st.tuples(st.integers(21, 2000), st.integers(0, 255)), min_size=1, max_size=8),
)
def test_damage_under_a_valid_crc_is_refused_or_read_but_never_crashes(
    records: list[Record], codec: Compression, damage: list[tuple[int, int]]
) -> None:
    batch = bytearray(build_batch(records, compression=codec))
    for position, value in damage:
        batch[21 + position % (len(batch) - 21)] = value
    struct.pack_into(">I", batch, 17, crc32c(batch[21:]))
    with suppress(ProtocolError):
        for record in read_records(batch, max_bytes=BATCH_BYTES_MAX):
            assert record.value is None or len(record.value) <= BATCH_BYTES_MAX


@given(st.binary(max_size=120), st.integers(-5, 2**31 - 1))
def test_arbitrary_record_bytes_stay_inside_their_batch(body: bytes, count: int) -> None:
    checked = struct.pack(">hiqqqhii", 0, 0, 0, 0, -1, -1, -1, count) + body
    batch = struct.pack(">qiibI", 0, len(checked) + 9, -1, 2, crc32c(checked)) + checked
    with suppress(ProtocolError):
        read_records(batch + b"secret" * 100)
