"""What a client may do, as it can ask for: without an authorizer everything, in the words of Apache Kafka."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Consumer, TopicCollection
from confluent_kafka.admin import AclOperation, AdminClient, NewTopic

from harness.server import ServerProcess

SECONDS_MAX = 20
TOPIC = "permitted"
GROUP = "permitted-readers"


@pytest.fixture(scope="module", params=["apache_kafka", "broker"])
def admin(request: pytest.FixtureRequest) -> AdminClient:
    """Apache Kafka, then ours, each with a topic and a group."""
    found: ServerProcess = request.getfixturevalue(request.param)
    admin = AdminClient({"bootstrap.servers": found.bootstrap_servers})
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(SECONDS_MAX)
    consumer = Consumer({"bootstrap.servers": found.bootstrap_servers, "group.id": GROUP})
    consumer.subscribe([TOPIC])
    deadline = time.monotonic() + SECONDS_MAX
    while not consumer.assignment():
        assert time.monotonic() < deadline
        consumer.poll(0.1)
    consumer.close()
    return admin


def names(operations: list[AclOperation] | None) -> set[str]:
    return {operation.name for operation in operations or ()}


def test_everything_is_allowed_with_a_topic(admin: AdminClient) -> None:
    asked = admin.describe_topics(TopicCollection([TOPIC]), include_authorized_operations=True)

    assert names(asked[TOPIC].result(SECONDS_MAX).authorized_operations) == {
        "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS",
    }  # fmt: skip


def test_everything_is_allowed_with_a_group(admin: AdminClient) -> None:
    asked = admin.describe_consumer_groups([GROUP], include_authorized_operations=True)

    assert names(asked[GROUP].result(SECONDS_MAX).authorized_operations) == {
        "READ", "DELETE", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS",
    }  # fmt: skip


def test_everything_is_allowed_with_the_cluster(admin: AdminClient) -> None:
    described = admin.describe_cluster(include_authorized_operations=True).result(SECONDS_MAX)

    assert names(described.authorized_operations) == {
        "CREATE", "ALTER", "DESCRIBE", "CLUSTER_ACTION", "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE",
    }  # fmt: skip


def test_who_does_not_ask_is_not_told(admin: AdminClient) -> None:
    topics = admin.describe_topics(TopicCollection([TOPIC]))[TOPIC].result(SECONDS_MAX)

    assert not topics.authorized_operations
    assert not admin.describe_cluster().result(SECONDS_MAX).authorized_operations
