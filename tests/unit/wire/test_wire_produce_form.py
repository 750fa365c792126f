"""Forms of produce requests: which have one, and what their answers are."""

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
from tidelog.wire.produce_form import (
    FIRST_FLEXIBLE_VERSION,
    HEAD_BYTES_MAX,
    ProduceForm,
    head_of,
)

TOPIC_ID = UUID(int=7)
VERSIONS = st.integers(FIRST_FLEXIBLE_VERSION, 13)


def request_with(records: bytes | None, topic: str = "orders", partition: int = 3, acks: int = 1) -> ProduceRequest:
    return ProduceRequest(
        None, acks, 1000, [TopicProduceData(topic, TOPIC_ID, [PartitionProduceData(partition, records)])]
    )


def frame_of(request: ProduceRequest, version: int, correlation_id: int = 1) -> memoryview:
    return memoryview(encode_request(request, version, correlation_id, "client"))[4:]


def decoded(frame: memoryview) -> tuple[int, ProduceRequest]:
    header = parse_request_header(frame)
    return header.api_version, decode(ProduceRequest, header.api_version, frame[header.body_position :])


@pytest.mark.parametrize(
    "request_",
    [
        request_with(None),
        request_with(b""),
        ProduceRequest(None, 1, 1000, []),
        ProduceRequest(None, 1, 1000, request_with(b"records").topic_data * 2),
        ProduceRequest(None, 1, 1000, [TopicProduceData("orders", TOPIC_ID, [PartitionProduceData(0, b"r")] * 2)]),
        request_with(b"records", topic="x" * HEAD_BYTES_MAX),
    ],
)
def test_some_requests_have_no_form(request_: ProduceRequest) -> None:
    frame = frame_of(request_, 12)
    assert head_of(12, frame, decoded(frame)[1]) is None


def test_the_form_of_a_transactional_producer_is_its_own() -> None:
    requests = [ProduceRequest(name, 1, 1000, request_with(b"records").topic_data) for name in (None, "a", "b")]
    frames = [frame_of(request, 12) for request in requests]
    heads = {head_of(12, frame, decoded(frame)[1]) for frame in frames}
    assert len(heads - {None}) == 3
    assert [ProduceForm(12, request).is_transactional for request in requests] == [False, True, True]


def test_versions_without_tags_have_no_form() -> None:
    frame = frame_of(request_with(b"records"), FIRST_FLEXIBLE_VERSION - 1)
    assert head_of(FIRST_FLEXIBLE_VERSION - 1, frame, decoded(frame)[1]) is None


@given(
    VERSIONS,
    st.lists(st.tuples(st.integers(0, 2**31 - 1), st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=4),
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=3),
)
def test_answers_are_what_the_encoder_writes(version: int, answered: list[tuple[int, int]], starts: list[int]) -> None:
    form = ProduceForm(version, request_with(b"records"))
    for start in starts:
        expected = [
            encode_response(
                correlation_id, form.response(PartitionProduceResponse(3, 0, base_offset, -1, start)), version
            )
            for correlation_id, base_offset in answered
        ]
        assert form.answers([one for one, _ in answered], [one for _, one in answered], start) == expected
