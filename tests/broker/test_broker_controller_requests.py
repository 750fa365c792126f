"""What strangers may say to a controller: any plausible request of any version is answered, and it leads on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tidelog
from harness.plausible_messages import Plausible
from harness.raw_client import RawClient, batch_of
from harness.server import free_port
from harness.waiting import wait_until
from tidelog.broker.raft.requests import METADATA_TOPIC_ID
from tidelog.wire.apis import APIS, request_class, response_class
from tidelog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from tidelog.wire.schema import VersionRange

REQUESTS_OF_EACH_VERSION = 15
CLUSTER_ID = "TidelogStrangers000000"
NAMES = ("__cluster_metadata", "__cluster_metadata", CLUSTER_ID, "metadata.version", "CONTROLLER", "")


@pytest.fixture
def controller() -> Iterator[str]:
    address = f"127.0.0.1:{free_port()}"
    config = {
        "process.roles": "broker,controller",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://127.0.0.1:0,CONTROLLER://{address}",
        "tidelog.cluster.id": CLUSTER_ID,
    }
    with tidelog.Broker(config=config):
        yield address


def creates(controller: str, name: str) -> bool:
    with RawClient(controller, timeout_seconds=30) as client:
        request = CreateTopicsRequest(topics=[CreatableTopic(name, 1, 1)])
        return client.ask(request, CreateTopicsResponse).topics[0].error_code == 0


def test_no_plausible_request_makes_a_controller_fail(controller: str) -> None:
    with RawClient(controller) as client:
        served = client.ask(ApiVersionsRequest("test", "1"), ApiVersionsResponse).api_keys
    assert {APIS[api.api_key].name for api in served} >= {
        "Vote",
        "Fetch",
        "FetchSnapshot",
        "Envelope",
        "DescribeQuorum",
    }
    answered = 0
    for api in served:
        declared = VersionRange.parse(request_class(api.api_key).VERSIONS)
        for version in range(max(api.min_version, declared.first), api.max_version + 1):
            for number in range(REQUESTS_OF_EACH_VERSION):
                seed = f"{APIS[api.api_key].name} v{version} number {number}"
                plausible = Plausible(seed, NAMES, [METADATA_TOPIC_ID], batch_of(b"value"))
                with RawClient(controller, timeout_seconds=40) as client:
                    client.ask(
                        plausible.message(request_class(api.api_key), version), response_class(api.api_key), version
                    )
                answered += 1
    assert answered > 50 * REQUESTS_OF_EACH_VERSION
    wait_until(lambda: creates(controller, "still-here") or creates(controller, "still-there"))
