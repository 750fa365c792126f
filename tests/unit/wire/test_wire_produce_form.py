"""Forms of produce requests: what is found by comparison is what the decoder finds, and nothing else is."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.wire.compiler import decode
from tidelog.wire.frames import encode_request, encode_response, parse_request_header
from tidelog.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from tidelog.wire.primitives import MalformedMessage
from tidelog.wire.produce_form import (
    FIRST_FLEXIBLE_VERSION,
    HEAD_BYTES_MAX,
    TAIL_BYTES,
    ProduceForm,
    head_of,
    head_reader,
)

TOPIC_ID = UUID(int=7)
VERSIONS = st.integers(FIRST_FLEXIBLE_VERSION, 13)
# Around the lengths at which a varint grows, and one that needs four bytes.
RECORDS = st.one_of(
    st.binary(min_size=1, max_size=40),
    st.sampled_from([bytes(size) for size in (126, 127, 128, 16382, 16383, 16384, 2097150, 2097151)]),
)


def request_with(records: bytes | None, topic: str = "orders", partition: int = 3, acks: int = 1) -> ProduceRequest:
    return ProduceRequest(
        None, acks, 1000, [TopicProduceData(topic, TOPIC_ID, [PartitionProduceData(partition, records)])]
    )


def frame_of(request: ProduceRequest, version: int, correlation_id: int = 1) -> memoryview:
    return memoryview(encode_request(request, version, correlation_id, "client"))[4:]


def decoded(frame: memoryview) -> tuple[int, ProduceRequest]:
    header = parse_request_header(frame)
    return header.api_version, decode(ProduceRequest, header.api_version, frame[header.body_position :])


@given(VERSIONS, RECORDS, RECORDS, st.integers(0, 2**31 - 1))
def test_the_next_request_of_a_form_is_read_without_decoding(
    version: int, first: bytes, second: bytes, correlation_id: int
) -> None:
    frame = frame_of(request_with(first), version)
    head = head_of(version, frame, decoded(frame)[1])
    assert head is not None
    following = frame_of(request_with(second), version, correlation_id)
    read = head_reader(len(head)).read(following)
    if len(second) >= 2097151:
        assert read is None  # Longer than three bytes of a varint can say: it goes the usual way.
    else:
        assert read is not None
        assert read[:3] == (version, correlation_id, head)
        assert following[read[3] : -TAIL_BYTES] == second


@pytest.mark.parametrize(
    "other",
    [
        request_with(b"records", topic="orderz"),
        request_with(b"records", partition=4),
        request_with(b"records", acks=-1),
    ],
)
def test_a_request_that_differs_in_anything_else_has_another_head(other: ProduceRequest) -> None:
    frame = frame_of(request_with(b"records"), 12)
    head = head_of(12, frame, decoded(frame)[1])
    assert head is not None
    read = head_reader(len(head)).read(frame_of(other, 12))
    assert read is None or read[2] != head


@pytest.mark.parametrize(
    "request_",
    [
        request_with(None),
        request_with(b""),
        ProduceRequest("transaction", 1, 1000, request_with(b"records").topic_data),
        ProduceRequest(None, 1, 1000, []),
        ProduceRequest(None, 1, 1000, request_with(b"records").topic_data * 2),
        ProduceRequest(None, 1, 1000, [TopicProduceData("orders", TOPIC_ID, [PartitionProduceData(0, b"r")] * 2)]),
        request_with(b"records", topic="x" * HEAD_BYTES_MAX),
    ],
)
def test_some_requests_have_no_form(request_: ProduceRequest) -> None:
    frame = frame_of(request_, 12)
    assert head_of(12, frame, decoded(frame)[1]) is None


def test_versions_without_tags_have_no_form() -> None:
    frame = frame_of(request_with(b"records"), FIRST_FLEXIBLE_VERSION - 1)
    assert head_of(FIRST_FLEXIBLE_VERSION - 1, frame, decoded(frame)[1]) is None


@given(st.data())
def test_a_damaged_frame_is_never_read_differently_than_by_the_decoder(data: st.DataObject) -> None:
    version = data.draw(VERSIONS)
    good = frame_of(request_with(bytes(range(100))), version)
    head = head_of(version, good, decoded(good)[1])
    assert head is not None
    damaged = bytearray(good)
    for _ in range(data.draw(st.integers(0, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.one_of(st.just(len(damaged)), st.integers(0, len(damaged))))
    frame = memoryview(bytes(damaged[:cut]) + data.draw(st.sampled_from([b"", b"\0", b"more"])))
    read = head_reader(len(head)).read(frame)
    if read is None or read[2] != head or read[0] != version:
        return  # The decoder will say what it is.
    try:
        api_version, request = decoded(frame)
    except MalformedMessage as error:
        raise AssertionError(f"the decoder refuses what was read: {error}") from error
    assert api_version == version
    expected = decoded(good)[1]
    (topic,), (wanted,) = request.topic_data, expected.topic_data
    assert (request.transactional_id, request.acks) == (None, expected.acks)
    assert (topic.name, topic.topic_id, topic.partition_data[0].index) == (wanted.name, wanted.topic_id, 3)
    assert topic.partition_data[0].records == frame[read[3] : -TAIL_BYTES]


@given(VERSIONS, *[st.integers(-(2**63), 2**63 - 1)] * 3, st.integers(0, 2**31 - 1))
def test_the_answer_is_what_the_encoder_writes(
    version: int, base_offset: int, append_time: int, start: int, correlation_id: int
) -> None:
    form = ProduceForm(version, request_with(b"records"))
    answer = PartitionProduceResponse(3, 0, base_offset, append_time, start)
    expected = encode_response(correlation_id, form.response(answer), version)
    assert form.answer(correlation_id, base_offset, append_time, start) == expected
