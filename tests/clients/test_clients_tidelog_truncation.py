"""Our consumer after an unclean election: it does not go on as if the records that it has read were still there."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

import tidelog
from tidelog import Consumer, Producer, TopicPartition
from tidelog.client.admin import Admin, accepted
from tidelog.client.cluster import Cluster as Connected
from tidelog.client.core.described import NewTopic
from tidelog.client.errors import LogTruncated
from tidelog.model.ids import NodeId, PartitionIndex, TopicName

SECONDS_MAX = 60
CONFIG = {"replica.lag.time.max.ms": 1500, "group.initial.rebalance.delay.ms": 0}


@pytest.fixture(scope="module")
def cluster() -> Iterator[tidelog.Cluster]:
    with tidelog.Cluster(3, config=CONFIG) as running:
        yield running


def write(cluster: tidelog.Cluster, topic: str, values: list[bytes]) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers, acks=1) as producer:
        sent = [producer.send(topic, value, partition=0) for value in values]
        producer.flush(SECONDS_MAX)
        for delivery in sent:
            delivery.result(0)


def read(consumer: Consumer, count: int) -> list[bytes]:
    found: list[bytes] = []
    end = time.monotonic() + SECONDS_MAX
    while len(found) < count and time.monotonic() < end:
        found += [record.value for record in consumer.poll(0.5)]
    return found


@pytest.mark.req("E8")
def test_reading_goes_on_where_the_logs_part_even_when_the_new_one_is_longer(
    cluster: tidelog.Cluster, topic: str
) -> None:
    place = TopicPartition(TopicName(topic), PartitionIndex(0))
    servers = cluster.bootstrap_servers
    # Neither of them is the controller, which both must be able to reach while they cannot reach each other.
    first, second = (NodeId(node) for node in cluster.nodes if node != cluster.controller)
    with Connected(servers) as connected:
        admin = Admin(connected)
        configs = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
        new = NewTopic(place.topic, configs=configs, assignments=((first, second),))
        accepted(admin.create_topics([new])[place.topic])
    assert cluster.leader(topic) == first
    write(cluster, topic, [b"both %d" % number for number in range(5)])
    with (
        Consumer(bootstrap_servers=servers, auto_offset_reset="earliest", group_id=topic) as resetting,
        Consumer(bootstrap_servers=servers, auto_offset_reset="none") as strict,
    ):
        resetting.assign([place])
        strict.assign([place])
        strict.seek(place, 0)
        assert len(read(resetting, 5)) == len(read(strict, 5)) == 5

        # What the leader takes now the other replica never gets, and it leaves the ISR.
        cluster.cut(first, second)
        cluster.cut(second, first)
        write(cluster, topic, [b"lost %d" % number for number in range(3)])
        wait_for_isr(cluster, place, [first])
        assert read(resetting, 3) == read(strict, 3) == [b"lost 0", b"lost 1", b"lost 2"]
        resetting.commit()
        old = resetting.committed(place)[place]
        assert (old.offset, old.leader_epoch >= 0) == (8, True)

        # The links stay cut: what is on its way between the two must not arrive any more.
        cluster.kill(first)
        wait_for_isr(cluster, place, [second])
        # More than was lost: by its offsets alone nobody would notice.
        write(cluster, topic, [b"new %d" % number for number in range(6)])

        assert read(resetting, 6) == [b"new %d" % number for number in range(6)]
        with pytest.raises(LogTruncated) as caught:
            raise AssertionError(f"{strict.position(place)}: {read(strict, 1)}")
        assert (caught.value.position, caught.value.divergent_offset) == (8, 5)
        strict.seek(place, 5)
        assert read(strict, 1)[0] == b"new 0"

    # So does a member that comes back with offsets that the group committed before.
    with Consumer(bootstrap_servers=servers, group_id=f"{topic}-later", auto_offset_reset="earliest") as later:
        later.assign([place])
        later.commit({place: old})
        later.assign([])
        later.assign([place])
        assert read(later, 6)[:1] == [b"new 0"]


def wait_for_isr(cluster: tidelog.Cluster, place: TopicPartition, nodes: list[NodeId]) -> None:
    end = time.monotonic() + SECONDS_MAX
    with Connected(cluster.bootstrap_servers) as connected:
        while True:
            known = connected.refresh([place.topic], connected.deadline()).partition(place)
            if known is not None and sorted(known.isr) == nodes and known.leader in nodes:
                return
            assert time.monotonic() < end, known
            time.sleep(0.1)
