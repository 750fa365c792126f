"""Bytes of the client: records as the wire's own encoder makes them, frames cut as they were joined."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidelog.client.core.landing import SHORT_BUFFER_BYTES, Landing
from tidelog.client.core.record_encoder import VARINT_TABLE_SIZE, encode_record, size_bound
from tidelog.wire.batch import HEADER_BYTES
from tidelog.wire.records import Record, build_batch

sizes = st.one_of(
    st.integers(0, 200), st.sampled_from([VARINT_TABLE_SIZE - 1, VARINT_TABLE_SIZE, 3 * VARINT_TABLE_SIZE])
)
content = st.one_of(st.none(), sizes.map(bytes))
headers = st.lists(st.tuples(st.text(max_size=5), st.one_of(st.none(), st.binary(max_size=9))), max_size=3).map(tuple)
times = st.one_of(st.integers(0, 2000), st.integers(-(2**40), 2**40), st.just(VARINT_TABLE_SIZE))
records = st.tuples(times, content, content, headers)


@given(st.lists(records, min_size=1, max_size=8))
def test_a_record_is_encoded_as_the_wire_does(
    given_records: list[tuple[int, bytes | None, bytes | None, tuple]],
) -> None:  # type: ignore[type-arg]
    base = given_records[0][0]
    parts = [
        encode_record(index, time - base, key, value, fields)
        for index, (time, key, value, fields) in enumerate(given_records)
    ]
    whole = build_batch([Record(0, time, key, value, fields) for time, key, value, fields in given_records])
    assert b"".join(parts) == whole[HEADER_BYTES:]
    for part, (_, key, value, fields) in zip(parts, given_records, strict=True):
        assert len(part) <= size_bound(key, value, fields)


frames = st.lists(
    st.one_of(
        st.binary(max_size=40), st.sampled_from([SHORT_BUFFER_BYTES - 4, SHORT_BUFFER_BYTES, 200_000]).map(bytes)
    ),
    max_size=12,
)


@given(frames, st.lists(st.one_of(st.integers(1, 9), st.just(100_000)), min_size=1, max_size=20))
def test_frames_come_out_as_they_went_in_however_they_arrive(sent: list[bytes], steps: list[int]) -> None:
    landing = Landing(1_000_000)
    stream = b"".join(len(frame).to_bytes(4) + frame for frame in sent)
    received: list[memoryview] = []
    position = turn = 0
    while position < len(stream):
        room = landing.room()
        assert len(room) > 0
        count = min(len(room), steps[turn % len(steps)] if turn < 400 else 100_000, len(stream) - position)
        room[:count] = stream[position : position + count]
        received += landing.received(count)
        position += count
        turn += 1
    # What was given out before is still what it was: no later byte was written over it.
    assert [bytes(frame) for frame in received] == sent
