"""Our client while leaders change: what is acknowledged stays, in order and once, and reading goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

import tidelog
from tidelog import Consumer, Producer, TopicPartition
from tidelog.client.admin import Admin, accepted
from tidelog.client.cluster import Cluster as Connected
from tidelog.client.core.described import NewTopic
from tidelog.model.ids import PartitionIndex, TopicName

SECONDS_MAX = 60
RECORDS = 2_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[tidelog.Cluster]:
    with tidelog.Cluster(3, config={"group.initial.rebalance.delay.ms": 0}) as running:
        yield running


@pytest.mark.req("E8", "H10")
def test_records_are_written_once_and_in_order_while_leaders_die(cluster: tidelog.Cluster, topic: str) -> None:
    place = TopicPartition(TopicName(topic), PartitionIndex(0))
    with Connected(cluster.bootstrap_servers) as connected:
        new = NewTopic(place.topic, 1, 3, configs={"min.insync.replicas": "2"})
        accepted(Admin(connected).create_topics([new])[place.topic])
    read: list[int] = []
    stop = threading.Event()

    def reading() -> None:
        with Consumer(
            bootstrap_servers=cluster.bootstrap_servers, group_id=topic, auto_offset_reset="earliest"
        ) as consumer:
            consumer.subscribe([topic])
            while not stop.is_set():
                read.extend(int(record.value) for record in consumer.poll(0.2))

    reader = threading.Thread(target=reading)
    reader.start()
    try:
        with Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=1, batch_size=1_000) as producer:
            deliveries = []
            for number in range(RECORDS):
                deliveries.append(producer.send(topic, b"%d" % number, partition=0))
                if number == RECORDS // 2:
                    leader = cluster.leader(topic)
                    cluster.kill(leader)
                time.sleep(0.001)
            producer.flush(SECONDS_MAX)
            offsets = [delivery.result(0).offset for delivery in deliveries]
        end = time.monotonic() + SECONDS_MAX
        while len(read) < RECORDS and time.monotonic() < end:
            time.sleep(0.05)
    finally:
        stop.set()
        reader.join(SECONDS_MAX)
    assert offsets == list(range(RECORDS))
    assert read == list(range(RECORDS))
