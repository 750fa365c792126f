"""kafka-python's own integration tests, as its authors ship them, against our broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness import kafka_python_tests
from harness.raw_client import RawClient
from harness.server import HOST, ServerProcess, free_port
from harness.tidelog_server import tidelog_server
from tidelog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

SETTINGS = {
    # Their tests assign replicas to broker 0.
    "node.id": "0",
    "num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
}
# Their tests of what this broker does not serve, with the key of the API.
NOT_SERVED = {
    "test_admin_integration": {
        "test_create_describe_delete_acls": 29,
        "test_alter_replica_log_dirs": 34,
    }
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Ours with its address in the properties, as the tests expect it to be described."""
    port = free_port()
    address = {"advertised.listeners": f"PLAINTEXT://{HOST}:{port}"}
    made = tidelog_server(tmp_path_factory.mktemp("broker"), SETTINGS | address, port=port)
    made.start()
    yield made
    made.stop()


@pytest.mark.req("A13", "A20", "A21", "H10", "K5", "K7", "L1")
@pytest.mark.parametrize("module", ["test_admin_integration", "test_consumer_integration", "test_producer_integration"])
def test_what_kafka_python_s_authors_test_works(server: ServerProcess, module: str) -> None:
    left_out = list(NOT_SERVED.get(module, ()))
    done = kafka_python_tests.run(module, server.bootstrap_servers, left_out)
    if done.returncode != 0:
        # Some of them give a broker two seconds for everything, which a busy machine may not have.
        done = kafka_python_tests.run(module, server.bootstrap_servers, left_out)

    assert done.returncode == 0, done.stdout[-10_000:] + done.stderr[-2_000:]


def test_what_is_left_out_is_really_not_served(server: ServerProcess) -> None:
    with RawClient(server.bootstrap_servers) as client:
        served = {api.api_key for api in client.ask(ApiVersionsRequest("a", "1"), ApiVersionsResponse).api_keys}

    assert not served & {key for names in NOT_SERVED.values() for key in names.values()}
