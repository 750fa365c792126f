"""All replicas of a partition are gone, one that lacks records is back: nobody leads, until the last of the ISR returns
or somebody decides otherwise, by command or by setting."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

import tidelog
from harness.waiting import wait_until
from tidelog.client.admin import Admin, accepted
from tidelog.client.cluster import Cluster as Connected
from tidelog.client.core.described import PartitionDescription
from tidelog.model.ids import TopicName
from tidelog.testing.cluster import Cluster

NOBODY = -1
BEFORE, MISSED = [b"before-%d" % number for number in range(5)], [b"missed-%d" % number for number in range(3)]
KEPT, BY_COMMAND, BY_SETTING = "kept", "by-command", "by-setting"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with tidelog.Cluster(3, cuttable=False) as made:
        yield made


def create(cluster: Cluster, replicas: list[int]) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    topics = [
        NewTopic(name, 1, replica_assignment=[replicas], config={"min.insync.replicas": "1"})
        for name in (KEPT, BY_COMMAND, BY_SETTING)
    ]
    for made in admin.create_topics(topics).values():
        made.result(30)


def write(cluster: Cluster, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "log_level": 0})
    for topic in (KEPT, BY_COMMAND, BY_SETTING):
        for value in values:
            producer.produce(topic, value)
    assert producer.flush(60) == 0


def values_of(cluster: Cluster, topic: str) -> list[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "all",
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[bytes] = []
    while (message := consumer.poll(30)) is not None and message.error() is None:
        values.append(message.value() or b"")
    consumer.close()
    return values


def partition(cluster: Cluster, topic: str) -> PartitionDescription:
    with Connected(cluster.bootstrap_servers) as connected:
        described = accepted(Admin(connected).describe_topics([TopicName(topic)])[TopicName(topic)])
    return described.partitions[0]


def elect(cluster: Cluster, topic: str) -> None:
    command = [
        sys.executable,
        "-m",
        "tidelog",
        "kafka-leader-election",
        "--bootstrap-server",
        cluster.bootstrap_servers,
    ]
    arguments = ["--election-type", "unclean", "--topic", topic, "--partition", "0"]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=120)
    assert "Successfully completed leader election (UNCLEAN)" in done.stdout, done.stdout + done.stderr


def allow(cluster: Cluster, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    setting = ConfigEntry("unclean.leader.election.enable", "true", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[setting])
    for altered in admin.incremental_alter_configs([resource]).values():
        altered.result(30)


@pytest.mark.req("D18", "G2", "G3")
def test_nobody_leads_until_the_last_in_sync_returns_unless_somebody_decides_otherwise(cluster: Cluster) -> None:
    leader, follower = (node for node in cluster.nodes if node != cluster.controller)
    create(cluster, [leader, follower])
    write(cluster, BEFORE)
    cluster.kill(follower)
    wait_until(lambda: list(partition(cluster, KEPT).isr) == [leader], 60)
    write(cluster, MISSED)
    # Now only one voter is left; with the follower back they are two again, and know that the leader is gone.
    cluster.kill(leader)
    cluster.restart(follower)

    wait_until(lambda: {partition(cluster, topic).leader for topic in (KEPT, BY_COMMAND, BY_SETTING)} == {NOBODY}, 60)
    elect(cluster, BY_COMMAND)
    allow(cluster, BY_SETTING)
    wait_until(lambda: partition(cluster, BY_SETTING).leader == follower, 60)

    assert partition(cluster, BY_COMMAND).leader == follower
    assert partition(cluster, KEPT).leader == NOBODY, "only where it was asked for"
    for topic in (BY_COMMAND, BY_SETTING):
        assert values_of(cluster, topic) == BEFORE, "what the dead leader alone had is lost"

    cluster.restart(leader)
    cluster.wait_until_in_sync()

    assert partition(cluster, KEPT).leader == leader
    assert values_of(cluster, KEPT) == [*BEFORE, *MISSED], "nobody else led, so nothing is lost"
    for topic in (BY_COMMAND, BY_SETTING):
        assert (partition(cluster, topic).leader, list(partition(cluster, topic).isr)) == (follower, [follower, leader])
        assert values_of(cluster, topic) == BEFORE
