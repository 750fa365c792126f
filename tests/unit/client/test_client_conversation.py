"""One connection's side of the protocol, without a socket."""

from __future__ import annotations

import pytest

from tidelog.client.core.conversation import CORRELATION_ID_MAX, Answer, Conversation
from tidelog.client.errors import UnsupportedByBroker
from tidelog.model.errors import ErrorCode
from tidelog.wire.frames import encode_response, parse_request_header
from tidelog.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from tidelog.wire.messages.fetch import FetchRequest
from tidelog.wire.messages.metadata import MetadataRequest, MetadataResponse
from tidelog.wire.messages.produce import ProduceRequest
from tidelog.wire.primitives import MalformedMessage


def conversation(**served: tuple[int, int]) -> Conversation:
    keys = {"produce": 0, "fetch": 1, "metadata": 3}
    made = Conversation("me")
    made.learn_versions(ApiVersion(keys[name], *versions) for name, versions in served.items())
    return made


def response(correlation_id: int, message: MetadataResponse | ApiVersionsResponse, version: int) -> bytes:
    return bytes(encode_response(correlation_id, message, version))


def test_the_newest_version_that_both_know_is_chosen() -> None:
    assert conversation(metadata=(0, 7)).version_of(MetadataRequest) == 7
    assert conversation(metadata=(0, 99)).version_of(MetadataRequest) == 13
    assert conversation(metadata=(0, 99)).version_of(MetadataRequest, at_most=9) == 9


def test_a_request_that_the_broker_does_not_serve_is_not_sent() -> None:
    with pytest.raises(UnsupportedByBroker, match="does not serve Fetch"):
        conversation(metadata=(0, 13)).version_of(FetchRequest)
    with pytest.raises(UnsupportedByBroker, match="versions 0-2, we speak 3-13"):
        conversation(produce=(0, 2)).version_of(ProduceRequest)


def test_a_request_carries_its_correlation_id_and_who_asks() -> None:
    _, frame = conversation(metadata=(0, 13)).ask(MetadataRequest(None), 12)
    header = parse_request_header(memoryview(frame)[4:])
    assert (header.api_key, header.api_version, header.correlation_id, header.client_id) == (3, 12, 0, "me")


def test_answers_belong_to_requests_in_their_order_however_the_bytes_come() -> None:
    made = conversation(metadata=(0, 13))
    first, _ = made.ask(MetadataRequest(None), 12)
    second, _ = made.ask(MetadataRequest(None), 5)
    data = response(first, MetadataResponse(cluster_id="a"), 12) + response(second, MetadataResponse(cluster_id="b"), 5)
    answers = [answer for position in range(len(data)) for answer in made.receive(data[position : position + 1])]
    assert [(answer.correlation_id, answer.response.cluster_id) for answer in answers] == [(first, "a"), (second, "b")]  # type: ignore[attr-defined]
    assert made.in_flight == 0


def test_correlation_ids_begin_again_after_the_largest() -> None:
    made = conversation(metadata=(0, 13))
    made._next_correlation_id = CORRELATION_ID_MAX
    assert [made.ask(MetadataRequest(None), 12)[0] for _ in range(2)] == [CORRELATION_ID_MAX, 0]


def test_an_old_broker_that_refuses_our_api_versions_request_is_understood() -> None:
    made = Conversation("me")
    correlation_id, _ = made.ask_versions("tidelog", "1")
    refusal = ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, [ApiVersion(18, 0, 2)])
    assert made.receive(response(correlation_id, refusal, 0)) == [Answer(correlation_id, refusal)]


def test_an_answer_that_nobody_asked_for_ends_the_conversation() -> None:
    made = conversation(metadata=(0, 13))
    with pytest.raises(MalformedMessage, match="not asked"):
        made.receive(response(0, MetadataResponse(), 12))


def test_an_answer_to_another_request_ends_the_conversation() -> None:
    made = conversation(metadata=(0, 13))
    made.ask(MetadataRequest(None), 12)
    with pytest.raises(MalformedMessage, match="request 7, not 0"):
        made.receive(response(7, MetadataResponse(), 12))


def test_a_peer_that_speaks_http_is_recognised_as_none_of_ours() -> None:
    made = conversation(metadata=(0, 13))
    made.ask(MetadataRequest(None), 12)
    with pytest.raises(MalformedMessage):
        made.receive(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def test_a_request_without_an_answer_is_not_waited_for() -> None:
    made = conversation(produce=(3, 13), metadata=(0, 13))
    made.ask(ProduceRequest(acks=0), 12, answered=False)
    correlation_id, _ = made.ask(MetadataRequest(None), 12)
    assert made.in_flight == 1
    (answer,) = made.receive(response(correlation_id, MetadataResponse(), 12))
    assert answer.correlation_id == correlation_id == 1
