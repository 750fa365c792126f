"""Runs of produce requests: what is found by comparison is what the decoder finds, and nothing else is."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.model.errors import ProtocolError
from tidelog.model.ids import ProducerEpoch, ProducerId
from tidelog.wire.batch import RunBatch, check_produced_batch
from tidelog.wire.compiler import decode
from tidelog.wire.frames import encode_request, parse_request_header
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.wire.primitives import MalformedMessage
from tidelog.wire.produce_form import FIRST_FLEXIBLE_VERSION, head_of
from tidelog.wire.produce_run import RUN_MAX, ProduceRun, RunReader, run_reader
from tidelog.wire.records import Record, build_batch

TOPIC_ID = UUID(int=7)
VERSIONS = st.integers(FIRST_FLEXIBLE_VERSION, 13)
FRAME_BYTES_MAX = 1 << 22
# Around the lengths at which a varint grows: a record's own overhead and the header are 61 + 7 to 11 bytes.
VALUES = st.one_of(
    st.integers(0, 40),
    st.integers(50, 70),
    st.integers(16295, 16320),
    st.sampled_from([2097055, 2097075, 2097085, 2097100]),
)


def batch_of(*values_bytes: int, sequence: int = -1, timestamp: int = 1000) -> bytes:
    records = [Record(index, timestamp, None, bytes(size)) for index, size in enumerate(values_bytes)]
    if sequence < 0:
        return build_batch(records)
    return build_batch(records, producer_id=4000, producer_epoch=0, base_sequence=sequence)


def frame_of(batch: bytes, version: int, correlation_id: int = 1, partition: int = 3, acks: int = 1) -> bytes:
    data = TopicProduceData("orders", TOPIC_ID, [PartitionProduceData(partition, batch)])
    return encode_request(ProduceRequest(None, acks, 1000, [data]), version, correlation_id, "client")


def decoded(frame: memoryview) -> tuple[int, int, ProduceRequest]:
    header = parse_request_header(frame)
    request = decode(ProduceRequest, header.api_version, frame[header.body_position :])
    return header.api_version, header.correlation_id, request


class Learned:
    """A reader that has learned the form of the frames above."""

    def __init__(self, version: int) -> None:
        self.version = version
        frame = memoryview(frame_of(batch_of(10), version))[4:]
        head = head_of(version, frame, decoded(frame)[2])
        assert head is not None
        self.head = head
        self.reader: RunReader = run_reader(len(head))
        # Producer ids and epochs with an open transaction.
        self.open: set[tuple[int, int]] = set()

    def continues(self, head: bytes, producer_id: int, producer_epoch: int) -> bool:
        assert head == self.head
        return (producer_id, producer_epoch) in self.open

    def read(self, stream: bytes | bytearray, frame_bytes_max: int = FRAME_BYTES_MAX) -> ProduceRun | None:
        view = memoryview(bytearray(stream))
        return self.reader.read(view, 0, len(view), {self.head}, frame_bytes_max, self.continues)


def views(batches: Sequence[RunBatch]) -> list[bytes]:
    return [bytes(batch[0]) for batch in batches]


@given(VERSIONS, st.lists(st.tuples(VALUES, st.integers(0, 2**31 - 1)), min_size=1, max_size=4))
def test_requests_of_a_form_are_read_without_decoding(version: int, sent: list[tuple[int, int]]) -> None:
    learned = Learned(version)
    rest = [(batch_of(size, 3), correlation_id) for size, correlation_id in sent]
    while rest:
        run = learned.read(b"".join(frame_of(batch, version, correlation_id) for batch, correlation_id in rest))
        if run is None:
            assert len(rest[0][0]) >= 2097151  # Longer than three bytes of a length can say: it goes the usual way.
            rest = rest[1:]
            continue
        count = len(run.batches)
        assert views(run.batches) == [batch for batch, _ in rest[:count]]
        assert run.correlation_ids == [correlation_id for _, correlation_id in rest[:count]]
        assert [batch[1:] for batch in run.batches] == [(2, 1000, None)] * count
        assert run.end == sum(len(frame_of(batch, version)) for batch, _ in rest[:count])
        rest = rest[count:]


def test_requests_of_the_same_size_are_one_run() -> None:
    run = Learned(12).read(frame_of(batch_of(100), 12) * 7)
    assert run is not None and len(run.batches) == 7


def test_a_run_has_an_end_even_if_the_stream_has_none() -> None:
    frame = frame_of(batch_of(0), 12)
    run = Learned(12).read(frame * (RUN_MAX + 1))
    assert run is not None and run.end == RUN_MAX * len(frame)


def test_a_run_can_be_cut() -> None:
    frames = [frame_of(batch_of(size), 12, size) for size in (1, 2, 3)]
    run = Learned(12).read(b"".join(frames))
    assert run is not None
    run.cut(2)
    assert (run.correlation_ids, len(run.batches)) == ([1, 2], 2)
    assert run.end == len(frames[0]) + len(frames[1])


@pytest.mark.parametrize(
    "other",
    [
        frame_of(batch_of(10), 12, partition=4),
        frame_of(batch_of(10), 12, acks=-1),
        frame_of(batch_of(10), 11),
        frame_of(batch_of(10, sequence=0), 12),
        frame_of(batch_of(10), 12)[:-1],
        b"",
    ],
)
def test_a_run_ends_before_what_is_not_alike(other: bytes) -> None:
    good = frame_of(batch_of(10), 12)
    run = Learned(12).read(good * 2 + other)
    assert run is not None
    assert (len(run.batches), run.end) == (2, 2 * len(good))


def test_a_run_of_an_idempotent_producer_has_the_headers() -> None:
    frames = b"".join(frame_of(batch_of(10, sequence=sequence), 12) for sequence in (5, 6))
    run = Learned(12).read(frames + frame_of(batch_of(10), 12))
    assert run is not None
    assert [batch[3].base_sequence for batch in run.batches if batch[3] is not None] == [5, 6]
    assert len(run.batches) == 2


def test_a_run_ends_before_a_frame_that_is_too_large() -> None:
    small, large = frame_of(batch_of(10), 12), frame_of(batch_of(11), 12)
    run = Learned(12).read(small * 2 + large, len(small) - 4)
    assert run is not None and len(run.batches) == 2
    assert Learned(12).read(large, len(small) - 4) is None


def test_a_batch_of_a_transaction_is_in_a_run_only_while_that_is_open() -> None:
    batches = [
        build_batch(
            [Record(0, 1, None, b"v")],
            producer_id=ProducerId(7),
            producer_epoch=ProducerEpoch(2),
            base_sequence=sequence,
            is_transactional=True,
        )
        for sequence in range(3)
    ]
    stream = b"".join(frame_of(batch, 12) for batch in batches)
    learned = Learned(12)
    assert learned.read(stream) is None
    learned.open = {(7, 1), (8, 2)}
    assert learned.read(stream) is None
    learned.open = {(7, 2)}
    run = learned.read(stream)
    assert run is not None
    assert views(run.batches) == batches


def test_a_run_may_have_several_heads_if_they_are_known() -> None:
    one, two = frame_of(batch_of(10), 12), frame_of(batch_of(10), 12, partition=4)
    learned = Learned(12)
    other = head_of(12, memoryview(two)[4:], decoded(memoryview(two)[4:])[2])
    assert other is not None
    view = memoryview(bytearray(one + two + one))
    run = learned.reader.read(view, 0, len(view), {learned.head, other}, FRAME_BYTES_MAX, learned.continues)
    assert run is not None
    assert run.heads == [learned.head, other, learned.head]


@given(st.data())
def test_damaged_bytes_are_never_read_differently_than_by_the_decoder(data: st.DataObject) -> None:
    version = data.draw(VERSIONS)
    good = frame_of(batch_of(60), version)
    stream = bytearray(good * 3)
    # Mostly where it matters: in front of the records, and at the end of a frame.
    for _ in range(data.draw(st.integers(0, 3))):
        place = data.draw(st.one_of(st.integers(0, 150), st.integers(0, len(stream) - 1)))
        stream[place] = data.draw(st.integers(0, 255))
    cut = data.draw(st.one_of(st.just(len(stream)), st.integers(0, len(stream))))
    run = Learned(version).read(stream[:cut])
    if run is None or run.version != version:
        return  # It has no form that is known, which has a version, too: the decoder will say what it is.
    position = 0
    for correlation_id, (view, records_count, max_timestamp, header) in zip(
        run.correlation_ids, run.batches, strict=True
    ):
        frame = memoryview(stream)[position + 4 : position + len(good)]
        try:
            api_version, its_id, request = decoded(frame)
            (topic,) = request.topic_data
            (partition,) = topic.partition_data
            assert partition.records is not None
            checked = check_produced_batch(partition.records, FRAME_BYTES_MAX)
        except (MalformedMessage, ProtocolError) as error:
            raise AssertionError(f"the usual way refuses what was read: {error}") from error
        assert (its_id, request.acks, partition.index) == (correlation_id, 1, 3)
        assert api_version == version
        assert partition.records == view
        assert (checked.records_count, checked.max_timestamp) == (records_count, max_timestamp)
        assert header == (checked if checked.producer_id >= 0 else None)
        position += len(good)
    assert position == run.end
