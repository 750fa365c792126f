"""Settings of topics, brokers and groups: ours and a real Apache Kafka, asked the same, answer the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from harness.java import JavaTools
from harness.raw_client import RawClient, create_topic
from harness.server import ServerProcess
from harness.waiting import wait_until
from tidelog.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from tidelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tidelog.wire.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse

TOPIC, BROKER, GROUP = 2, 4, 32
SET, DELETE = 0, 1
# Apache Kafka with eligible leader replicas sets this for all brokers by itself.
SET_BY_KAFKA = {"min.insync.replicas"}
# Set in the properties of one of the two servers.
OF_THE_HARNESS = {
    "advertised.listeners",
    "controller.listener.names",
    "controller.quorum.voters",
    "group.initial.rebalance.delay.ms",
    "inter.broker.listener.name",
    "listeners",
    "log.dirs",
    "offsets.topic.num.partitions",
    "offsets.topic.replication.factor",
    "process.roles",
    "share.coordinator.state.topic.min.isr",
    "share.coordinator.state.topic.replication.factor",
    "transaction.state.log.min.isr",
    "transaction.state.log.num.partitions",
    "transaction.state.log.replication.factor",
}


class Both(NamedTuple):
    """A connection to each server."""

    ours: RawClient
    apache: RawClient


@pytest.fixture(scope="module")
def both(broker: ServerProcess, apache_kafka: ServerProcess) -> Iterator[Both]:
    with RawClient(broker.bootstrap_servers) as ours, RawClient(apache_kafka.bootstrap_servers) as apache:
        yield Both(ours, apache)


def describe(client: RawClient, kind: int, name: str) -> DescribeConfigsResult:
    request = DescribeConfigsRequest([DescribeConfigsResource(kind, name, None)], include_synonyms=True)
    (result,) = client.ask(request, DescribeConfigsResponse, 4).results
    return result


def create(both: Both, name: str, **settings: str) -> None:
    """Create a topic in both; Kafka's broker hears of it a moment after the controller has answered."""
    for client in both:
        create_topic(client, name, **settings)  # type: ignore[arg-type]
        wait_until(lambda client=client: describe(client, TOPIC, name).error_code == 0)  # type: ignore[misc]


def described(client: RawClient, kind: int, name: str) -> dict[str, tuple[Any, ...]]:
    """Value, source, type and synonyms of each setting."""
    result = describe(client, kind, name)
    assert result.error_code == 0, result.error_message
    return {
        entry.name: (
            entry.value,
            entry.config_source,
            entry.read_only,
            entry.is_sensitive,
            entry.config_type,
            tuple((synonym.name, synonym.value, synonym.source) for synonym in entry.synonyms),
        )
        for entry in result.configs
    }


def alter(client: RawClient, kind: int, name: str, **values: str | None) -> tuple[int, str | None]:
    configs = [
        AlterableConfig(key.replace("_", "."), DELETE if value is None else SET, value) for key, value in values.items()
    ]
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(kind, name, configs)])
    (answer,) = client.ask(request, IncrementalAlterConfigsResponse, 1).responses
    return answer.error_code, answer.error_message


def listed(client: RawClient, kinds: list[int], version: int = 1) -> tuple[int, set[tuple[int, str]]]:
    request = ListConfigResourcesRequest(kinds if version else [])
    answer = client.ask(request, ListConfigResourcesResponse, version)
    return answer.error_code, {(resource.resource_type, resource.resource_name) for resource in answer.config_resources}


def differences(both: Both, kind: int, name: str, ignored: set[str]) -> dict[str, Any]:
    ours, apache = described(both.ours, kind, name), described(both.apache, kind, name)
    assert ours.keys() == apache.keys()
    return {key: (ours[key], apache[key]) for key in ours if key not in ignored and ours[key] != apache[key]}


def test_topics_are_described_as_by_kafka(both: Both, topic: str) -> None:
    create(both, f"{topic}-plain")
    create(both, f"{topic}-own", retention_ms="1234567", cleanup_policy="compact,delete", preallocate="true")

    assert differences(both, TOPIC, f"{topic}-plain", SET_BY_KAFKA) == {}
    assert differences(both, TOPIC, f"{topic}-own", SET_BY_KAFKA) == {}


def test_what_is_set_for_brokers_shows_in_their_topics_as_in_kafka(both: Both, topic: str) -> None:
    create(both, topic)
    for client in both:
        assert alter(client, BROKER, "1", log_retention_ms="777777") == (0, None)
        assert alter(client, BROKER, "", log_retention_ms="888888", log_cleaner_threads="2") == (0, None)
    try:
        for client in both:
            wait_until(lambda client=client: described(client, BROKER, "1")["log.retention.ms"][0] == "777777")  # type: ignore[misc]
        assert differences(both, TOPIC, topic, SET_BY_KAFKA) == {}
        assert differences(both, BROKER, "1", SET_BY_KAFKA | OF_THE_HARNESS) == {}
        ours, apache = described(both.ours, BROKER, ""), described(both.apache, BROKER, "")
        assert ours == {name: entry for name, entry in apache.items() if name not in SET_BY_KAFKA}
    finally:
        for client in both:
            alter(client, BROKER, "1", log_retention_ms=None)
            alter(client, BROKER, "", log_retention_ms=None, log_cleaner_threads=None)


@pytest.mark.parametrize(
    "values",
    [
        {"consumer_session_timeout_ms": "50000"},
        {"consumer_session_timeout_ms": "1"},
        {"consumer_session_timeout_ms": "70000"},
        {"consumer_session_timeout_ms": "soon"},
        {"consumer_heartbeat_interval_ms": "50000"},
        {"consumer_heartbeat_interval_ms": "6000", "consumer_session_timeout_ms": "46000"},
        {"share_record_lock_duration_ms": "1"},
        {"streams_num_standby_replicas": "3"},
        {"nonsense": "1"},
    ],
)
def test_groups_take_and_refuse_settings_as_in_kafka(both: Both, values: dict[str, str]) -> None:
    group = "-".join([*values, *values.values()])

    ours, apache = (alter(client, GROUP, group, **values) for client in both)

    assert ours == apache
    if ours[0] == 0:
        key, value = next((key.replace("_", "."), value) for key, value in values.items())
        wait_until(lambda: described(both.apache, GROUP, group)[key][0] == value)
    assert differences(both, GROUP, group, set()) == {}


def test_what_has_settings_is_listed_as_by_kafka(both: Both, topic: str) -> None:
    for client in both:
        create_topic(client, topic)
        assert alter(client, GROUP, topic, consumer_session_timeout_ms="50000")[0] == 0

    wait_until(lambda: (GROUP, topic) in listed(both.apache, [])[1])
    for client in both:
        error, everything = listed(client, [])
        assert error == 0
        assert {(TOPIC, topic), (BROKER, "1"), (GROUP, topic)} <= everything
        assert (GROUP, topic) in listed(client, [GROUP])[1]
        assert {kind for kind, _ in listed(client, [TOPIC, BROKER])[1]} == {TOPIC, BROKER}
        assert listed(client, [99]) == (35, set())
        assert listed(client, [], version=0) == (0, set())


def test_the_java_tool_describes_and_alters_settings_of_groups(broker: ServerProcess) -> None:
    tools = JavaTools(broker.bootstrap_servers)
    where = ("--entity-type", "groups", "--entity-name", "readers")

    changed = tools.configs("--alter", *where, "--add-config", "consumer.session.timeout.ms=50000")
    described_ = tools.configs("--describe", *where)

    assert "Completed updating config for group readers." in changed
    assert "consumer.session.timeout.ms=50000 sensitive=false" in described_
    assert "DYNAMIC_GROUP_CONFIG:consumer.session.timeout.ms=50000" in described_
