"""Topics and their contents for tests whose subject is something else."""

from __future__ import annotations

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from drivers.confluent_driver import SECONDS_MAX, consumer, producer

from harness.waiting import wait_until


def admin(bootstrap_servers: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap_servers})


def create_topic(bootstrap_servers: str, topic: str, partitions: int = 1, **config: str) -> str:
    settings = {name.replace("_", "."): value for name, value in config.items()}
    client = admin(bootstrap_servers)
    client.create_topics([NewTopic(topic, partitions, 1, config=settings)])[topic].result(SECONDS_MAX)
    wait_until(lambda: topic in client.list_topics(timeout=SECONDS_MAX).topics)
    return topic


def delete_topic(bootstrap_servers: str, topic: str) -> None:
    client = admin(bootstrap_servers)
    client.delete_topics([topic])[topic].result(SECONDS_MAX)
    wait_until(lambda: topic not in client.list_topics(timeout=SECONDS_MAX).topics)


def grow_topic(bootstrap_servers: str, topic: str, partitions: int) -> None:
    client = admin(bootstrap_servers)
    client.create_partitions([NewPartitions(topic, partitions)])[topic].result(SECONDS_MAX)


def fill(bootstrap_servers: str, topic: str, partitions: int, count: int, first: int = 0) -> None:
    """Write numbers to the partitions in turn; `count` of them in all."""
    client = producer(bootstrap_servers)
    for number in range(first, first + count):
        client.produce(topic, b"%d" % number, partition=number % partitions)
        if number % 1000 == 0:
            client.poll(0)
    assert client.flush(SECONDS_MAX) == 0


def committed(bootstrap_servers: str, group: str, topic: str, partitions: int) -> dict[int, int]:
    """The committed offset of each partition that has one."""
    client = consumer(bootstrap_servers, group_id=group)
    try:
        found = client.committed([TopicPartition(topic, index) for index in range(partitions)], timeout=SECONDS_MAX)
    finally:
        client.close()
    return {place.partition: place.offset for place in found if place.offset >= 0}
