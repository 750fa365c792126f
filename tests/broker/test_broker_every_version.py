"""Every version of every API that is advertised is really served, and no plausible request makes a handler fail."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tidelog
from harness.plausible_messages import Plausible
from harness.raw_client import RawClient, batch_of, create_topic
from tidelog.model.errors import ErrorCode
from tidelog.wire.apis import APIS, request_class, response_class
from tidelog.wire.compiler import encode
from tidelog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.wire.messages.produce import ProduceRequest
from tidelog.wire.schema import Message, VersionRange

PRODUCE = 0
REQUESTS_OF_EACH_VERSION = 12
NAMES = ("alpha", "beta", "a-group", "retention.ms", "1", "no such name!", "", "consumer", "range")


@pytest.fixture(scope="module")
def broker() -> Iterator[tidelog.Broker]:
    with tidelog.Broker(config={"group.initial.rebalance.delay.ms": 0}) as running:
        yield running


def unknown_errors(message: object) -> Iterator[str]:
    """Where an answer says that the server does not know what went wrong."""
    if isinstance(message, Message):
        for name in message.__struct_fields__:
            value = getattr(message, name)
            if name.endswith("error_code") and value == ErrorCode.UNKNOWN_SERVER_ERROR:
                yield f"{type(message).__name__}.{name}"
            yield from unknown_errors(value)
    elif isinstance(message, list):
        for element in message:
            yield from unknown_errors(element)


def test_every_advertised_version_is_answered_and_no_plausible_request_makes_a_handler_fail(
    broker: tidelog.Broker,
) -> None:
    with RawClient(broker.bootstrap_servers) as client:
        topic_ids = [create_topic(client, name, 2) for name in ("alpha", "beta")]
        advertised = client.ask(ApiVersionsRequest("test", "1"), ApiVersionsResponse).api_keys
    answered = 0
    for api in advertised:
        declared = VersionRange.parse(request_class(api.api_key).VERSIONS)
        for version in range(max(api.min_version, declared.first), api.max_version + 1):
            for number in range(REQUESTS_OF_EACH_VERSION):
                seed = f"{APIS[api.api_key].name} v{version} number {number}"
                request = Plausible(seed, NAMES, topic_ids, batch_of(b"value")).message(
                    request_class(api.api_key), version
                )
                if isinstance(request, ProduceRequest) and request.acks == 0:
                    request.acks = 1  # Otherwise there is no answer to look at.
                with RawClient(broker.bootstrap_servers) as client:
                    answer = client.ask(request, response_class(api.api_key), version)
                assert not list(unknown_errors(answer)), f"{seed}: {request}\n{answer}"
                encode(answer, version)
                answered += 1
    assert answered > 200 * REQUESTS_OF_EACH_VERSION
