"""Quotas on changes of topics (KIP-599) and on new connections (KIP-612), with real clients."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TypeVar

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from harness.java import JavaTools
from harness.raw_client import RawClient
from harness.server import ServerProcess
from harness.waiting import wait_until
from tidelog.testing.cluster import Cluster
from tidelog.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    EntityData,
    OpData,
)
from tidelog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from tidelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from tidelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from tidelog.wire.schema import Request, Response

R = TypeVar("R", bound=Response)

SECONDS_MAX = 60
# Changes can be saved up for two seconds, connections count over the last three.
SETTINGS = {
    "controller.quota.window.num": "2",
    "controller.quota.window.size.seconds": "1",
    "quota.window.num": "3",
    "quota.window.size.seconds": "1",
}
MUTATIONS = "controller_mutation_rate"
CONNECTIONS = "connection_creation_rate"
EXCEEDED = 89
# How long a debt lasts that no test waits for, however slow the machine is.
LONG_SECONDS = 1000


@pytest.fixture(scope="module")
def server(start_broker: Callable[..., ServerProcess]) -> ServerProcess:
    return start_broker(SETTINGS)


@contextmanager
def quota(bootstrap_servers: str, key: str, value: float, *entity: tuple[str, str | None]) -> Iterator[None]:
    """A quota for as long as the block runs, set and removed over one connection that was there before."""
    with RawClient(bootstrap_servers, SECONDS_MAX) as client:

        def alter(op: OpData) -> None:
            entry = AlterClientQuotasRequestEntryData([EntityData(*part) for part in entity], [op])
            (answer,) = client.ask(AlterClientQuotasRequest([entry]), AlterClientQuotasResponse).entries
            assert answer.error_code == 0, answer.error_message
            time.sleep(0.3)  # Apache Kafka's brokers hear of it a moment later.

        alter(OpData(key, value))
        try:
            yield
        finally:
            alter(OpData(key, remove=True))


def ask(server: ServerProcess, client_id: str, request: Request, response: type[R], version: int | None = None) -> R:
    """Over a connection of its own: one that was told to wait is not read from."""
    with RawClient(server.bootstrap_servers, SECONDS_MAX, client_id) as client:
        return client.ask(request, response, version)


def create(server: ServerProcess, client_id: str, topic: str, partitions: int, *, validate_only: bool = False) -> int:
    """The error code; 0 is none."""
    request = CreateTopicsRequest([CreatableTopic(topic, partitions, 1)], validate_only=validate_only)
    return ask(server, client_id, request, CreateTopicsResponse).topics[0].error_code


def grow(server: ServerProcess, client_id: str, topic: str, partitions: int) -> int:
    request = CreatePartitionsRequest([CreatePartitionsTopic(topic, partitions, None)], SECONDS_MAX * 1000)
    return ask(server, client_id, request, CreatePartitionsResponse).results[0].error_code


def delete(server: ServerProcess, client_id: str, topic: str) -> int:
    request = DeleteTopicsRequest([DeleteTopicState(topic)], timeout_ms=SECONDS_MAX * 1000)
    return ask(server, client_id, request, DeleteTopicsResponse).responses[0].error_code


def test_who_has_changed_too_much_is_refused_and_others_are_not(server: ServerProcess, topic: str) -> None:
    with quota(server.bootstrap_servers, MUTATIONS, 10 / LONG_SECONDS, ("client-id", "busy")):
        # What is there may be overdrawn once; then it is waited for, whatever the change is.
        assert create(server, "busy", topic, 10) == 0
        assert create(server, "busy", f"{topic}.more", 1) == EXCEEDED
        assert grow(server, "busy", topic, 11) == EXCEEDED
        assert delete(server, "busy", topic) == EXCEEDED
        assert grow(server, "quiet", topic, 11) == 0
        assert delete(server, "quiet", topic) == 0

    assert create(server, "busy", f"{topic}.more", 1) == 0


def test_a_client_is_told_how_long_to_wait_and_may_go_on_then(server: ServerProcess, topic: str) -> None:
    with (
        quota(server.bootstrap_servers, MUTATIONS, 2.0, ("client-id", "patient")),
        RawClient(server.bootstrap_servers, SECONDS_MAX, "patient") as client,
    ):
        topics = [CreatableTopic(f"{topic}.{number}", 10, 1) for number in range(2)]
        began = time.monotonic()
        answered = client.ask(CreateTopicsRequest(topics), CreateTopicsResponse)
        again = client.ask(CreateTopicsRequest(topics[1:]), CreateTopicsResponse)

    # Four were free, six more were lent, at two a second.
    assert [result.error_code for result in answered.topics] == [0, EXCEEDED]
    assert answered.topics[1].error_message == "The throttling quota has been exceeded."
    assert 0 < answered.throttle_time_ms <= 3000
    # The connection was not read from until then.
    assert time.monotonic() - began > answered.throttle_time_ms / 1000 - 0.1
    assert [result.error_code for result in again.topics] == [0]


def test_librdkafka_which_does_not_know_the_error_gets_what_it_wants_and_waits(
    server: ServerProcess, topic: str
) -> None:
    client = AdminClient({"bootstrap.servers": server.bootstrap_servers, "client.id": "old"})

    with quota(server.bootstrap_servers, MUTATIONS, 2.0, ("client-id", "old")):
        began = time.monotonic()
        wanted = [NewTopic(f"{topic}.{number}", 6, 1) for number in range(2)]
        for made in client.create_topics(wanted).values():
            made.result(SECONDS_MAX)
        for made in client.create_topics([NewTopic(f"{topic}.late", 1, 1)]).values():
            made.result(SECONDS_MAX)

    # Four were free, eight more were lent, at two a second.
    assert time.monotonic() - began > 3.5


def test_trying_out_is_charged_too(server: ServerProcess, topic: str) -> None:
    with quota(server.bootstrap_servers, MUTATIONS, 10 / LONG_SECONDS, ("client-id", "curious")):
        assert create(server, "curious", topic, 10, validate_only=True) == 0
        assert create(server, "curious", topic, 1) == EXCEEDED


def test_the_java_tool_says_what_is_wrong(server: ServerProcess, topic: str) -> None:
    tools = JavaTools(server.bootstrap_servers)

    with quota(server.bootstrap_servers, MUTATIONS, 10 / LONG_SECONDS, ("user", None)):
        tools.topics("--create", "--topic", topic, "--partitions", "10")
        said = tools.topics("--create", "--topic", f"{topic}.more", check=False)

    assert "The throttling quota has been exceeded." in said


def test_the_controller_s_refusal_reaches_the_client_of_any_broker() -> None:
    with Cluster(3, config=SETTINGS) as cluster:
        servers = cluster.bootstrap_servers
        with quota(servers.split(",")[0], MUTATIONS, 2.0, ("client-id", "raw")):
            for number, broker in enumerate(servers.split(",")):
                with RawClient(broker, SECONDS_MAX) as client:
                    topics = [CreatableTopic(f"topic-{number}-{each}", 10, 1) for each in range(2)]
                    began = time.monotonic()
                    answered = client.ask(CreateTopicsRequest(topics), CreateTopicsResponse)
                    client.ask(ApiVersionsRequest("raw", "1"), ApiVersionsResponse)
                assert answered.topics[1].error_code == EXCEEDED
                assert answered.throttle_time_ms > 0
                assert time.monotonic() - began > answered.throttle_time_ms / 1000 - 0.1
                time.sleep(2)  # What was free is there again.


@pytest.mark.parametrize("address", ["127.0.0.1", None], ids=["of its own", "default"])
def test_an_address_that_connects_too_often_is_let_go(server: ServerProcess, address: str | None) -> None:
    with quota(server.bootstrap_servers, CONNECTIONS, 1.0, ("ip", address)):
        answered = connect_at_once(server, 20)
        # Whoever goes on trying gets in when the rate allows it.
        wait_until(lambda: all(connect_at_once(server, 1)), SECONDS_MAX)

    assert set(answered) == {True, False}
    assert all(connect_at_once(server, 20))


def connect_at_once(server: ServerProcess, count: int) -> list[bool]:
    """Which of so many connections that are made in one go, however busy the machine is, are answered."""
    with ExitStack() as held:
        clients = [held.enter_context(RawClient(server.bootstrap_servers, SECONDS_MAX)) for _ in range(count)]
        return [is_answered(client) for client in clients]


def is_answered(client: RawClient) -> bool:
    try:
        client.ask(ApiVersionsRequest("raw", "1"), ApiVersionsResponse)
    except ConnectionError:
        return False
    return True


def test_all_connections_together_keep_to_their_rate(start_broker: Callable[..., ServerProcess]) -> None:
    server = start_broker({**SETTINGS, "max.connection.creation.rate": "5"})
    began = time.monotonic()

    # Those of two seconds are free.
    assert all(connect_at_once(server, 25))

    assert time.monotonic() - began > 1.5
