"""Both fronts of the admin client against a real broker in this process."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator

import pytest

from tidelog import Admin, AsyncAdmin, Broker, Consumer, NewTopic, Producer, TopicPartition
from tidelog.client.core.described import LATEST, OffsetAt, Resource, ResourceType
from tidelog.client.errors import Rejected
from tidelog.client.offset_resets import ToEarliest
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import PartitionIndex, TopicName


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with Broker(config={"group.initial.rebalance.delay.ms": 0}) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def admin(servers: str) -> Iterator[Admin]:
    with Admin(bootstrap_servers=servers) as connected:
        yield connected


def test_topics_and_their_settings(admin: Admin) -> None:
    created = admin.create_topic("tides", partitions=3, configs={"retention.ms": "1000"})
    assert (created.partitions, admin.describe_topic("tides").replication_factor) == (3, 1)
    assert admin.describe_topic_configs("tides")["retention.ms"] == "1000"
    resource = Resource(ResourceType.TOPIC, "tides")
    admin.alter_configs(resource, {"retention.ms": None, "segment.bytes": "1048576"})
    settings = admin.describe_topic_configs("tides")
    assert (settings["retention.ms"], settings["segment.bytes"]) == ("604800000", "1048576")
    assert admin.create_partitions({"tides": 5}) == {"tides": None}
    assert len(admin.describe_topic("tides").partitions) == 5
    with pytest.raises(Rejected) as refused:
        admin.create_topic("tides")
    assert refused.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
    admin.delete_topic("tides")
    assert "tides" not in [topic.name for topic in admin.list_topics()]


def test_records_and_groups(admin: Admin, servers: str) -> None:
    place = TopicPartition(TopicName("grouped"), PartitionIndex(0))
    admin.create_topics([NewTopic(place.topic, 1)])
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(10):
            producer.send("grouped", b"%d" % number)
    with Consumer(bootstrap_servers=servers, group_id="readers", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["grouped"])
        while len(consumer.poll(1)) == 0:
            pass
        consumer.commit({place: 4})
        described = admin.describe_group("readers")
        assert (described.state, len(described.members)) == ("Stable", 1)
        consumer.close(commit=False)
    assert [group.id for group in admin.list_groups()] == ["readers"]
    assert admin.group_lag("readers")[place].records == 6
    assert admin.reset_group_offsets("readers", [place], ToEarliest()) == {place: None}
    assert admin.alter_group_offsets("readers", {place: 2}) == {place: None}
    (offset,) = admin.list_group_offsets("readers").values()
    assert not isinstance(offset, Rejected) and offset.offset == 2
    found = admin.list_offsets({place: LATEST})[place]
    assert isinstance(found, OffsetAt) and found.offset == 10
    assert admin.delete_records({place: 3}) == {place: 3}
    assert admin.delete_groups(["readers"]) == {"readers": None}


def test_the_cluster_and_its_transactions(admin: Admin, servers: str) -> None:
    cluster = admin.describe_cluster()
    assert len(cluster.brokers) == 1
    assert admin.describe_log_dirs(cluster.brokers[0].id)
    assert admin.describe_quorum().leader == cluster.brokers[0].id
    with Producer(bootstrap_servers=servers, transactional_id="payments") as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send("paid", b"1")
    assert [listed.transactional_id for listed in admin.list_transactions()] == ["payments"]
    assert admin.describe_transaction("payments").transactional_id == "payments"
    assert admin.list_reassignments() == {}


def test_the_asyncio_front_has_every_method_and_does_the_same(servers: str) -> None:
    def methods(kind: type) -> set[str]:
        return {name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}

    assert methods(Admin) == methods(AsyncAdmin)

    async def use() -> int:
        async with AsyncAdmin(bootstrap_servers=servers) as admin:
            await admin.create_topic("async-topic", partitions=2)
            return len((await admin.describe_topic("async-topic")).partitions)

    assert asyncio.run(use()) == 2
