"""Records waiting to be sent."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidelog.client.core.accumulator import Accumulator, Batch, size_of
from tidelog.client.core.record import RecordMetadata
from tidelog.client.errors import ClientError
from tidelog.model.ids import NO_OFFSET, NO_TIMESTAMP, Offset, PartitionIndex, TopicName, TopicPartition
from tidelog.wire.records import Record, build_batch

P0 = TopicPartition(TopicName("t"), PartitionIndex(0))
P1 = TopicPartition(TopicName("t"), PartitionIndex(1))


def record(value: bytes = b"v") -> Record:
    return Record(0, 1000, None, value)


def send(accumulator: Accumulator, batch: Batch) -> None:
    batch.encoded = b"sent"
    accumulator.sent(batch)


def values(batch: Batch) -> list[bytes | None]:
    return [record.value for record in batch.records]


def test_a_batch_waits_until_it_is_full() -> None:
    accumulator = Accumulator(batch_bytes_max=30, linger_s=60)
    assert not accumulator.append(P0, record(), 10, None, now=0)
    assert list(accumulator.ready(now=1)) == []
    assert not accumulator.append(P0, record(), 10, None, now=1)
    assert accumulator.append(P0, record(), 10, None, now=1)
    (batch,) = accumulator.ready(now=1)
    assert len(batch.records) == 3


def test_a_batch_waits_no_longer_than_it_lingers() -> None:
    accumulator = Accumulator(batch_bytes_max=1000, linger_s=5)
    accumulator.append(P0, record(), 10, None, now=100)
    assert list(accumulator.ready(now=104.9)) == []
    assert accumulator.next_ready_at() == 105
    assert len(list(accumulator.ready(now=105))) == 1


def test_a_flush_waits_for_nothing() -> None:
    accumulator = Accumulator(batch_bytes_max=1000, linger_s=60)
    accumulator.append(P0, record(), 10, None, now=0)
    accumulator.append(P1, record(), 10, None, now=0)
    assert {batch.partition for batch in accumulator.ready(now=0, flushing=True)} == {P0, P1}


def test_one_batch_of_a_partition_is_on_its_way_at_a_time() -> None:
    accumulator = Accumulator(batch_bytes_max=10, linger_s=0)
    for value in (b"1", b"2"):
        accumulator.append(P0, record(value), 10, None, now=0)
    (first,) = accumulator.ready(now=0)
    send(accumulator, first)
    assert list(accumulator.ready(now=100, flushing=True)) == []
    accumulator.ended(first)
    (second,) = accumulator.ready(now=100)
    assert (values(first), values(second)) == ([b"1"], [b"2"])


def test_a_batch_that_did_not_arrive_is_first_in_line_again_and_takes_no_more_records() -> None:
    accumulator = Accumulator(batch_bytes_max=1000, linger_s=60)
    accumulator.append(P0, record(b"1"), 10, None, now=0)
    (first,) = accumulator.ready(now=0, flushing=True)
    send(accumulator, first)
    accumulator.append(P0, record(b"2"), 10, None, now=1)
    accumulator.returned(first)
    (again,) = accumulator.ready(now=1)
    assert again is first
    assert values(again) == [b"1"]


def test_bytes_are_counted_until_they_are_acknowledged() -> None:
    accumulator = Accumulator(batch_bytes_max=1000, linger_s=60)
    accumulator.append(P0, record(), 10, None, now=0)
    accumulator.append(P0, record(), 15, None, now=0)
    assert (accumulator.size_bytes, bool(accumulator)) == (25, True)
    (batch,) = accumulator.ready(now=0, flushing=True)
    send(accumulator, batch)
    accumulator.ended(batch)
    assert (accumulator.size_bytes, bool(accumulator)) == (0, False)


def test_each_record_is_told_its_own_offset() -> None:
    told: list[tuple[RecordMetadata | None, ClientError | None]] = []
    batch = Batch(P1, 0.0)
    for timestamp in (5, 6):
        batch.records.append(Record(0, timestamp, None, b""))
        batch.callbacks.append(lambda metadata, error: told.append((metadata, error)))
    batch.succeed(Offset(40), NO_TIMESTAMP)
    batch.succeed(Offset(40), 77)
    batch.succeed(NO_OFFSET, NO_TIMESTAMP)
    told_metadata = [metadata for metadata, _ in told if metadata is not None]
    assert [(metadata.offset, metadata.timestamp_ms) for metadata in told_metadata] == [
        (40, 5),
        (41, 6),
        (40, 77),
        (41, 77),
        (-1, 5),
        (-1, 6),
    ]
    failure = ClientError("no")
    batch.fail(failure)
    assert told[-2:] == [(None, failure)] * 2


@given(
    st.none() | st.binary(max_size=300),
    st.none() | st.binary(max_size=300),
    st.lists(st.tuples(st.text(max_size=20), st.none() | st.binary(max_size=20)), max_size=5).map(tuple),
)
def test_the_size_of_a_record_is_never_guessed_too_low(
    key: bytes | None, value: bytes | None, headers: tuple[tuple[str, bytes | None], ...]
) -> None:
    one = Record(0, 0, key, value, headers)
    both = len(build_batch([one, one]))
    assert both - len(build_batch([one])) <= size_of(key, value, headers)
