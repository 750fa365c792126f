"""Runs of produce requests: what is found by comparison is what the decoder finds, and nothing else is."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.model.errors import ProtocolError
from tidelog.model.ids import ProducerEpoch, ProducerId
from tidelog.wire.batch import TRANSACTIONAL_FLAG, check_produced_batch
from tidelog.wire.compiler import decode
from tidelog.wire.frames import encode_request, parse_request_header
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.wire.primitives import MalformedMessage
from tidelog.wire.produce_form import FIRST_FLEXIBLE_VERSION, ProduceForm, head_of
from tidelog.wire.produce_run import RUN_MAX, ProducePart, RunReader, run_reader
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
        self.form = ProduceForm(version, decoded(frame)[2])
        self.forms = {head: self.form}
        self.reader: RunReader = run_reader(len(head))

    def read(
        self, stream: bytes | bytearray, frame_bytes_max: int = FRAME_BYTES_MAX
    ) -> tuple[ProducePart, int] | tuple[None, None]:
        """The one part of a run of one form, and where it ends."""
        view = memoryview(bytearray(stream))
        run = self.reader.read(view, 0, len(view), self.forms, frame_bytes_max)
        if run is None:
            return None, None
        (((form, part),), end) = run
        assert form is self.form
        assert part.position == 0
        return part, end


@given(VERSIONS, st.lists(st.tuples(VALUES, st.integers(0, 2**31 - 1)), min_size=1, max_size=4))
def test_requests_of_a_form_are_read_without_decoding(version: int, sent: list[tuple[int, int]]) -> None:
    learned = Learned(version)
    rest = [(batch_of(size, 3), correlation_id) for size, correlation_id in sent]
    while rest:
        part, end = learned.read(b"".join(frame_of(batch, version, correlation_id) for batch, correlation_id in rest))
        if part is None:
            assert len(rest[0][0]) >= 2097151  # Longer than three bytes of a length can say: it goes the usual way.
            rest = rest[1:]
            continue
        count = len(part.views)
        assert part.views == [batch for batch, _ in rest[:count]]
        assert part.correlation_ids == [correlation_id for _, correlation_id in rest[:count]]
        assert (part.record_counts, part.max_timestamps, part.producer_id) == ([2] * count, [1000] * count, -1)
        assert end == sum(len(frame_of(batch, version)) for batch, _ in rest[:count])
        rest = rest[count:]


def test_requests_of_the_same_size_are_one_run() -> None:
    part, _ = Learned(12).read(frame_of(batch_of(100), 12) * 7)
    assert part is not None and len(part.views) == 7


def test_a_run_has_an_end_even_if_the_stream_has_none() -> None:
    frame = frame_of(batch_of(0), 12)
    _, end = Learned(12).read(frame * (RUN_MAX + 1))
    assert end == RUN_MAX * len(frame)


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
    part, end = Learned(12).read(good * 2 + other)
    assert part is not None
    assert (len(part.views), end) == (2, 2 * len(good))


@pytest.mark.parametrize("other", [batch_of(10), batch_of(10, sequence=6), batch_of(10, sequence=8)])
def test_a_run_of_an_idempotent_producer_goes_as_far_as_its_sequence(other: bytes) -> None:
    sent = [batch_of(10, sequence=5), batch_of(10, sequence=6), other]
    part, _ = Learned(12).read(b"".join(frame_of(batch, 12) for batch in sent))
    assert part is not None
    assert (part.views, part.producer_id, part.base_sequence) == (sent[:2], 4000, 5)


def test_a_length_that_no_batch_has_is_for_the_decoder() -> None:
    good = frame_of(batch_of(10), 12)
    damaged = bytearray(good)
    place = len(good) - 3 - len(batch_of(10)) + 8
    damaged[place : place + 4] = b"\x7f\xff\xff\xff"
    assert Learned(12).read(damaged) == (None, None)
    part, _ = Learned(12).read(good)
    assert part is not None


def test_a_run_ends_before_a_frame_that_is_too_large() -> None:
    small, large = frame_of(batch_of(10), 12), frame_of(batch_of(11), 12)
    part, _ = Learned(12).read(small * 2 + large, len(small) - 4)
    assert part is not None and len(part.views) == 2
    assert Learned(12).read(large, len(small) - 4) == (None, None)


def batch_of_a_transaction(sequence: int, producer_id: int = 7, *, is_transactional: bool = True) -> bytes:
    return build_batch(
        [Record(0, 1, None, b"v")],
        producer_id=ProducerId(producer_id),
        producer_epoch=ProducerEpoch(2),
        base_sequence=sequence,
        is_transactional=is_transactional,
    )


def test_batches_of_a_transaction_are_a_run_which_says_so() -> None:
    batches = [batch_of_a_transaction(sequence) for sequence in range(3)]
    outside = batch_of_a_transaction(3, is_transactional=False)
    part, end = Learned(12).read(b"".join(frame_of(batch, 12) for batch in (*batches, outside)))
    assert part is not None
    assert part.views == batches
    assert end == sum(len(frame_of(batch, 12)) for batch in batches)
    assert (part.producer_id, part.producer_epoch) == (7, 2)
    assert part.attributes & TRANSACTIONAL_FLAG


def test_a_batch_of_a_transaction_that_names_no_producer_is_in_no_run() -> None:
    plain, nobodys = batch_of(10), batch_of_a_transaction(-1, -1)
    assert Learned(12).read(frame_of(nobodys, 12)) == (None, None)
    part, end = Learned(12).read(frame_of(plain, 12) + frame_of(nobodys, 12))
    assert part is not None
    assert end == len(frame_of(plain, 12)), "it does not hide behind others, either"


def test_a_run_may_have_several_heads_if_they_are_known() -> None:
    one, two = frame_of(batch_of(10), 12), frame_of(batch_of(10), 12, partition=4)
    learned = Learned(12)
    other = head_of(12, memoryview(two)[4:], decoded(memoryview(two)[4:])[2])
    assert other is not None
    view = memoryview(bytearray(one + two + one))
    forms = {**learned.forms, other: ProduceForm(12, decoded(memoryview(two)[4:])[2])}
    run = learned.reader.read(view, 0, len(view), forms, FRAME_BYTES_MAX)
    assert run is not None
    parts, end = run
    assert [form for form, _ in parts] == [learned.form, forms[other], learned.form]
    assert [part.position for _, part in parts] == [0, len(one), len(one + two)]
    assert end == len(view)


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
    part, end = Learned(version).read(stream[:cut])
    if part is None:
        return  # It has no form that is known, which has a version, too: the decoder will say what it is.
    position = 0
    read = zip(part.correlation_ids, part.views, part.record_counts, part.max_timestamps, strict=True)
    for correlation_id, view, records_count, max_timestamp in read:
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
        assert max(checked.producer_id, -1) == part.producer_id
        if not position and checked.producer_id >= 0:
            assert (part.producer_epoch, part.base_sequence) == (checked.producer_epoch, checked.base_sequence)
            assert (part.attributes, part.last_offset_delta) == (checked.attributes, checked.last_offset_delta)
        position += len(good)
    assert position == end
