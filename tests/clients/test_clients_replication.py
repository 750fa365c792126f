"""Three real brokers, librdkafka with acks=all: what was acknowledged outlives any one of them, and the replicas have
the same bytes."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

import tidelog
from harness.raw_client import RawClient
from tidelog.wire.batch import iter_headers
from tidelog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from tidelog.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tidelog.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tidelog.wire.records import read_records

PARTITIONS = 3
RECORDS = 3000
THROTTLE_BYTES_PER_SECOND = 1_000_000
MOVED_BYTES = 4_000_000
QUIET = {"log_level": 0}


@pytest.fixture(scope="module")
def cluster() -> Iterator[tidelog.Cluster]:
    with tidelog.Cluster(
        3, config={"offsets.topic.num.partitions": 4, "transaction.state.log.num.partitions": 4}
    ) as up:
        yield up


@pytest.fixture
def topic(cluster: tidelog.Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """A topic of its own for each test, with all brokers there and in sync before and after."""
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)[:100]
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, **QUIET})
    created = admin.create_topics([NewTopic(name, PARTITIONS, 3, config={"min.insync.replicas": "2"})])
    created[name].result(20)
    cluster.wait_until_in_sync()
    yield name
    for node in cluster.nodes:
        if node not in cluster.alive:
            cluster.restart(node)
    cluster.wait_until_in_sync()


class Sending:
    """Sends numbered records and keeps what became of each."""

    def __init__(self, cluster: tidelog.Cluster, topic: str, **settings: object) -> None:
        self._producer = Producer(
            {"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "linger.ms": 2, **QUIET, **settings}
        )
        self._topic = topic
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self.errors: list[KafkaError] = []

    def send(self, first: int, count: int) -> None:
        for number in range(first, first + count):
            value = b"%d" % number
            self._producer.produce(self._topic, value, partition=number % PARTITIONS, on_delivery=self._told)
            self._producer.poll(0)

    def _told(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.errors.append(error)
        else:
            self.acknowledged[message.partition(), message.offset()] = message.value()

    def flush(self) -> int:
        return self._producer.flush(60)


def read_all(cluster: tidelog.Cluster, topic: str, count: int) -> dict[tuple[int, int], bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": f"readers of {topic}",
            "auto.offset.reset": "earliest",
            **QUIET,
        }
    )
    consumer.subscribe([topic])
    found: dict[tuple[int, int], bytes] = {}
    deadline = time.monotonic() + 30
    while len(found) < count and time.monotonic() < deadline:
        for message in consumer.consume(500, 1.0):
            assert message.error() is None, message.error()
            found[message.partition(), message.offset()] = message.value()
    consumer.close()
    return found


def digests(data: Path, topic: str) -> dict[str, set[str]]:
    """What each partition's segments hold, by partition; more than one digest is a difference between brokers."""
    found: dict[str, set[str]] = {}
    for folder in sorted(data.glob(f"broker-*/{topic}-*")):
        content = hashlib.sha256()
        for segment in sorted(folder.glob("*.log")):
            content.update(segment.read_bytes())
        found.setdefault(folder.name, set()).add(content.hexdigest())
    return found


def eventually(what: str, holds: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


@pytest.mark.req("D1", "D4", "D19", "D21", "E3", "E5", "E9", "G1", "S3")
def test_nothing_acknowledged_is_lost_when_leaders_die_and_the_replicas_have_the_same_bytes(
    cluster: tidelog.Cluster, topic: str
) -> None:
    sending = Sending(cluster, topic, **{"enable.idempotence": True})
    sending.send(0, RECORDS)
    victim = cluster.leader(topic, 0)
    cluster.kill(victim)
    sending.send(RECORDS, RECORDS)
    assert sending.flush() == 0
    cluster.restart(victim)
    sending.send(2 * RECORDS, RECORDS)
    assert sending.flush() == 0
    assert not sending.errors
    assert sorted(map(int, sending.acknowledged.values())) == list(range(3 * RECORDS)), "each of them, once"

    assert read_all(cluster, topic, 3 * RECORDS) == sending.acknowledged

    cluster.wait_until_in_sync()
    eventually("the replicas differ", lambda: all(len(one) == 1 for one in digests(cluster.data, topic).values()))
    assert len(digests(cluster.data, topic)) == PARTITIONS


@pytest.mark.req("E4", "E5", "D6")
def test_with_too_few_in_sync_acks_all_is_refused_acks_one_is_not_and_both_work_when_all_are_back(
    cluster: tidelog.Cluster, topic: str
) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, **QUIET})
    stricter = ConfigEntry("min.insync.replicas", "3", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource("topic", topic, incremental_configs=[stricter])
    admin.incremental_alter_configs([resource])[resource].result(20)
    victim = next(node for node in cluster.nodes if node != cluster.leader(topic, 0))
    cluster.kill(victim)
    eventually("nobody left the ISR", lambda: _in_sync(cluster, topic) == 2)
    once = {"retries": 0, "enable.idempotence": False}

    refused = Sending(cluster, topic, **once)
    refused.send(0, 1)
    refused.flush()
    taken = Sending(cluster, topic, **once, acks="1")
    taken.send(0, 1)
    taken.flush()
    assert [error.code() for error in refused.errors] == [KafkaError.NOT_ENOUGH_REPLICAS]
    assert not taken.errors

    cluster.restart(victim)
    cluster.wait_until_in_sync()
    accepted = Sending(cluster, topic)
    accepted.send(0, 3)
    assert accepted.flush() == 0
    assert len(accepted.acknowledged) == 3


def _in_sync(cluster: tidelog.Cluster, topic: str) -> int:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, **QUIET})
    partitions = admin.list_topics(topic, timeout=10).topics[topic].partitions
    return min(len(partition.isrs) for partition in partitions.values())


@pytest.mark.req("K10", "K11")
def test_groups_and_transactions_go_on_when_their_coordinator_dies(cluster: tidelog.Cluster, topic: str) -> None:
    servers = {"bootstrap.servers": cluster.bootstrap_servers, **QUIET}
    producer = Producer({**servers, "transactional.id": topic})
    producer.init_transactions(30)
    for commits in (True, False):
        producer.begin_transaction()
        for number in range(30):
            producer.produce(topic, b"%d" % number, partition=number % PARTITIONS)
        (producer.commit_transaction if commits else producer.abort_transaction)(30)
    group = f"readers of {topic}"
    consumer = Consumer(
        {**servers, "group.id": group, "isolation.level": "read_committed", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    read: list[bytes] = []
    eventually("not all was read", lambda: len(_more(consumer, read)) >= 30)
    assert len(read) == 30, "what was aborted is not seen"
    consumer.commit(asynchronous=False)
    consumer.close()
    admin = AdminClient(servers)
    before = _committed(admin, group)
    coordinator = admin.describe_consumer_groups([group])[group].result(20).coordinator.id

    cluster.kill(coordinator)

    eventually("offsets are gone", lambda: _committed(admin, group) == before)
    again = Producer({**servers, "transactional.id": topic})
    again.init_transactions(30)
    again.begin_transaction()
    again.produce(topic, b"after", partition=0)
    again.commit_transaction(30)


@pytest.mark.req("D13")
def test_a_follower_serves_consumers_what_is_committed(cluster: tidelog.Cluster, topic: str) -> None:
    sending = Sending(cluster, topic)
    sending.send(0, 3 * PARTITIONS)
    assert sending.flush() == 0
    topic_id = _topic_id(cluster, topic)
    for node in cluster.nodes:
        eventually(f"broker {node} does not serve", lambda node=node: len(_fetched(cluster, node, topic_id)) == 3)  # type: ignore[misc]


def _topic_id(cluster: tidelog.Cluster, topic: str) -> UUID:
    with RawClient(cluster.address(1)) as client:
        found = client.ask(MetadataRequest([MetadataRequestTopic(name=topic)]), MetadataResponse)
    return found.topics[0].topic_id


def _fetched(cluster: tidelog.Cluster, node: int, topic_id: UUID) -> list[bytes | None]:
    wanted = FetchTopic(topic_id=topic_id, partitions=[FetchPartition(0, partition_max_bytes=9999)])
    request = FetchRequest(topics=[wanted])
    with RawClient(cluster.address(node)) as client:
        response = client.ask(request, FetchResponse)
    (data,) = response.responses[0].partitions
    assert data.error_code == 0
    records = memoryview(data.records or b"")
    return [record.value for position, _ in iter_headers(records) for record in read_records(records, position)]


@pytest.mark.req("G5", "G6")
def test_replicas_move_to_other_brokers_with_all_they_hold_and_leadership_returns(
    cluster: tidelog.Cluster, topic: str
) -> None:
    with RawClient(cluster.bootstrap_servers.split(",")[0]) as client:
        name = f"{topic}-small"
        placed = CreatableTopic(name, -1, -1, [CreatableReplicaAssignment(0, [1, 2])])
        assert client.ask(CreateTopicsRequest([placed]), CreateTopicsResponse).topics[0].error_code == 0
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", **QUIET})
        for number in range(1000):
            producer.produce(name, b"%0*d" % (MOVED_BYTES // 1000, number), partition=0)
        assert producer.flush(30) == 0

        _throttle(cluster, name, THROTTLE_BYTES_PER_SECOND)
        began = time.monotonic()
        wanted = AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name, [ReassignablePartition(0, [3, 2])])]
        )
        answer = client.ask(wanted, AlterPartitionReassignmentsResponse)
        assert (answer.error_code, answer.responses[0].partitions[0].error_code) == (0, 0)

        def is_moving() -> bool:
            going_on = client.ask(ListPartitionReassignmentsRequest(), ListPartitionReassignmentsResponse)
            return bool(going_on.topics)

        # The controller has taken it; the broker that is asked hears of it a moment later.
        eventually("the move does not begin", is_moving)
        eventually("the move does not end", lambda: not is_moving())
        took_seconds = time.monotonic() - began
        # A second's worth may go at once, and so may the first answer.
        assert took_seconds > MOVED_BYTES / THROTTLE_BYTES_PER_SECOND - 2, "faster than it may"
    eventually("another replica leads", lambda: cluster.leader(name) in (2, 3))
    assert len(read_all(cluster, name, 1000)) == 1000
    eventually("the old replica is still there", lambda: not list(cluster.data.glob(f"broker-1/{name}-0")))
    assert len(digests(cluster.data, name)[f"{name}-0"]) == 1


def _throttle(cluster: tidelog.Cluster, topic: str, rate: int) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, **QUIET})
    for end in ("leader", "follower"):
        every = ConfigEntry(f"{end}.replication.throttled.replicas", "*", incremental_operation=AlterConfigOpType.SET)
        limit = ConfigEntry(f"{end}.replication.throttled.rate", str(rate), incremental_operation=AlterConfigOpType.SET)
        resources = [
            ConfigResource("topic", topic, incremental_configs=[every]),
            *(ConfigResource("broker", str(node), incremental_configs=[limit]) for node in cluster.nodes),
        ]
        for resource in resources:
            admin.incremental_alter_configs([resource])[resource].result(20)


def _more(consumer: Consumer, read: list[bytes]) -> list[bytes]:
    read += [message.value() for message in consumer.consume(100, 0.3) if message.error() is None]
    return read


def _committed(admin: AdminClient, group: str) -> dict[int, int]:
    try:
        found = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(20)
    except Exception:
        return {}
    return {one.partition: one.offset for one in found.topic_partitions}
