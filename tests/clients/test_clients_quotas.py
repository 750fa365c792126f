"""Client quotas with real clients: set, described and removed; producers and consumers really held back by them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from drivers.topics import create_topic

from harness.java import JavaTools
from harness.raw_client import RawClient
from harness.server import ServerProcess
from tidelog.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    EntityData,
    OpData,
)
from tidelog.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)

SECONDS_MAX = 60
BROKER = 4
# Rates count over the last three seconds, so that two seconds' worth is free.
SETTINGS = {"quota.window.num": "3", "quota.window.size.seconds": "1"}
BYTES = 1_000_000
RATE = 200_000
FREE_SECONDS = 2
RECORD = b"q" * 1000
EXPECTED_SECONDS = BYTES / RATE - FREE_SECONDS


@pytest.fixture(scope="module")
def server(start_broker: Callable[..., ServerProcess]) -> ServerProcess:
    return start_broker(SETTINGS)


@contextmanager
def quota(server: ServerProcess, key: str, value: float, *entity: tuple[str, str | None]) -> Iterator[None]:
    """A quota for as long as the block runs."""
    _alter(server, entity, OpData(key, value))
    try:
        yield
    finally:
        _alter(server, entity, OpData(key, remove=True))


def _alter(server: ServerProcess, entity: tuple[tuple[str, str | None], ...], op: OpData) -> None:
    entry = AlterClientQuotasRequestEntryData([EntityData(*part) for part in entity], [op])
    with RawClient(server.bootstrap_servers) as client:
        (answer,) = client.ask(AlterClientQuotasRequest([entry]), AlterClientQuotasResponse).entries
    assert answer.error_code == 0, answer.error_message
    time.sleep(0.3)  # Apache Kafka's brokers hear of it a moment later.


def produce(server: ServerProcess, topic: str, client_id: str) -> tuple[float, int]:
    """(seconds, longest pause that the broker asked for in milliseconds)."""
    pauses = [0]
    client = Producer(
        {
            "bootstrap.servers": server.bootstrap_servers,
            "client.id": client_id,
            "linger.ms": 2,
            "batch.size": 50_000,
            "max.in.flight": 1,
            "throttle_cb": lambda event: pauses.append(int(event.throttle_time * 1000)),
        }
    )
    began = time.monotonic()
    for _ in range(BYTES // len(RECORD)):
        client.produce(topic, RECORD, partition=0)
        client.poll(0)
    assert client.flush(SECONDS_MAX) == 0
    return time.monotonic() - began, max(pauses)


def consume(server: ServerProcess, topic: str, client_id: str) -> float:
    client = Consumer(
        {
            "bootstrap.servers": server.bootstrap_servers,
            "client.id": client_id,
            "group.id": topic,
            "enable.auto.commit": False,
            "fetch.message.max.bytes": 100_000,
        }
    )
    client.assign([TopicPartition(topic, 0, 0)])
    began = time.monotonic()
    count = 0
    while count < BYTES // len(RECORD):
        messages = client.consume(1000, timeout=SECONDS_MAX)
        assert messages
        count += len(messages)
    seconds = time.monotonic() - began
    client.close()
    return seconds


@pytest.mark.parametrize(
    "entity",
    [
        (("client-id", "busy"),),
        (("client-id", None),),
        (("user", "ANONYMOUS"),),
        (("user", None), ("client-id", "busy")),
    ],
    ids=["client", "every client", "user", "client of any user"],
)
def test_a_producer_is_held_back_to_its_rate_and_told_so(
    server: ServerProcess, topic: str, entity: tuple[tuple[str, str | None], ...]
) -> None:
    create_topic(server.bootstrap_servers, topic)

    with quota(server, "producer_byte_rate", RATE, *entity):
        seconds, pause_ms = produce(server, topic, "busy")

    assert EXPECTED_SECONDS * 0.6 < seconds < EXPECTED_SECONDS * 2.5
    assert pause_ms > 0


def test_others_are_not_held_back_and_nobody_is_when_the_quota_is_gone(server: ServerProcess, topic: str) -> None:
    create_topic(server.bootstrap_servers, topic)

    with quota(server, "producer_byte_rate", RATE, ("client-id", "busy")):
        assert produce(server, topic, "quiet")[0] < EXPECTED_SECONDS * 0.6
    assert produce(server, topic, "busy")[0] < EXPECTED_SECONDS * 0.6


def test_a_consumer_is_held_back_to_its_rate(server: ServerProcess, topic: str) -> None:
    create_topic(server.bootstrap_servers, topic)
    produce(server, topic, "filler")

    assert consume(server, topic, "hungry") < EXPECTED_SECONDS * 0.6
    with quota(server, "consumer_byte_rate", RATE, ("client-id", "hungry")):
        seconds = consume(server, topic, "hungry")

    assert EXPECTED_SECONDS * 0.6 < seconds < EXPECTED_SECONDS * 2.5


def test_quotas_outlive_a_restart(server: ServerProcess, topic: str) -> None:
    create_topic(server.bootstrap_servers, topic)

    with quota(server, "producer_byte_rate", RATE, ("client-id", "busy")):
        server.restart()
        seconds, _ = produce(server, topic, "busy")

    assert seconds > EXPECTED_SECONDS * 0.6


def test_a_client_that_takes_too_much_of_the_broker_s_time_is_held_back(server: ServerProcess) -> None:
    every_setting = DescribeConfigsRequest([DescribeConfigsResource(BROKER, "1", None)])

    def ask(count: int) -> float:
        with RawClient(server.bootstrap_servers) as client:
            began = time.monotonic()
            for _ in range(count):
                client.ask(every_setting, DescribeConfigsResponse, 4)
            return time.monotonic() - began

    unhindered = ask(100)
    with quota(server, "request_percentage", 4.0, ("client-id", "raw")):
        hindered = ask(100)

    assert hindered > 3 * unhindered


def test_the_java_tool_sets_and_describes_quotas(server: ServerProcess) -> None:
    tools = JavaTools(server.bootstrap_servers)
    where = ("--entity-type", "users", "--entity-name", "ann", "--entity-type", "clients", "--entity-name", "app")

    tools.configs("--alter", *where, "--add-config", "producer_byte_rate=1024,consumer_byte_rate=2048")
    described = tools.configs("--describe", *where)
    tools.configs("--alter", *where, "--delete-config", "producer_byte_rate,consumer_byte_rate")

    assert "Quota configs for user-principal 'ann', client-id 'app' are" in described
    assert "producer_byte_rate=1024.0" in described
    assert "consumer_byte_rate=2048.0" in described
    assert "producer_byte_rate" not in tools.configs("--describe", *where)
