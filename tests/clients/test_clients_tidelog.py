"""Our own client, against our broker and against Apache Kafka, also while the broker goes down and comes back."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from harness.server import ServerProcess
from tidelog import Consumer, Producer
from tidelog.client.admin import Admin, accepted
from tidelog.client.cluster import Cluster
from tidelog.client.core.described import (
    EARLIEST,
    LATEST,
    ConfigChange,
    ConfigSource,
    NewTopic,
    Resource,
    ResourceType,
)
from tidelog.client.core.record import ConsumerRecord, RecordMetadata
from tidelog.client.errors import ClientError, Rejected
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId, Offset, PartitionIndex, TopicName, TopicPartition
from tidelog.wire.compression import Compression

SECONDS_MAX = 60


@pytest.fixture(params=["broker", "apache_kafka"])
def servers(request: pytest.FixtureRequest) -> str:
    """Ours, then Apache Kafka: what holds there is a true statement about Kafka."""
    server: ServerProcess = request.getfixturevalue(request.param)
    return server.bootstrap_servers


@pytest.fixture
def cluster(servers: str) -> Iterator[Cluster]:
    with Cluster(servers) as connected:
        yield connected


def create(cluster: Cluster, name: str, partitions: int = 1, **configs: str) -> list[TopicPartition]:
    topic = TopicName(name)
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    accepted(Admin(cluster).create_topics([NewTopic(topic, partitions, configs=settings)])[topic])
    # Kafka answers when the controller has created it; brokers hear of it a moment later.
    end = time.monotonic() + SECONDS_MAX
    while len(cluster.refresh([topic], cluster.deadline()).topics[topic].partitions) < partitions:
        assert time.monotonic() < end
        time.sleep(0.05)
    return [TopicPartition(topic, PartitionIndex(index)) for index in range(partitions)]


def reading(servers: str, *partitions: TopicPartition) -> Consumer:
    """A consumer at the beginning of some partitions."""
    consumer = Consumer(bootstrap_servers=servers)
    consumer.assign(partitions)
    for partition in partitions:
        consumer.seek(partition, 0)
    return consumer


def read(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    records: list[ConsumerRecord] = []
    end = time.monotonic() + SECONDS_MAX
    while len(records) < count:
        assert time.monotonic() < end, f"only {len(records)} of {count} records came"
        records += consumer.poll(1)
    return records


@pytest.mark.req("A19", "H4", "H6", "H8", "K4")
@pytest.mark.parametrize("codec", list(Compression))
def test_records_come_back_as_they_were_sent(servers: str, cluster: Cluster, topic: str, codec: Compression) -> None:
    partitions = create(cluster, topic, 3)
    errors: list[ClientError] = []
    sent: list[tuple[bytes | None, bytes, tuple[tuple[str, bytes | None], ...], int]] = [
        (
            None if number % 3 else b"key-%d" % (number % 7),
            b"value %d " % number * (number % 50),
            (("n", b"%d" % number), ("none", None)) if number % 5 == 0 else (),
            1_700_000_000_000 + number,
        )
        for number in range(5000)
    ]

    def failed(metadata: RecordMetadata | None, error: ClientError | None) -> None:
        if error is not None:
            errors.append(error)

    with Producer(bootstrap_servers=servers, compression_type=codec) as producer:
        for key, value, headers, timestamp_ms in sent:
            producer.send(topic, value, key, headers=headers, timestamp_ms=timestamp_ms, on_delivery=failed)
    assert errors == []
    with reading(servers, *partitions) as consumer:
        found = read(consumer, len(sent))
    got = sorted((record.timestamp_ms, record.key, record.value, record.headers) for record in found)
    assert got == [(timestamp_ms, key, value, headers) for key, value, headers, timestamp_ms in sent]


@pytest.mark.req("K7", "K12")
def test_positions_are_found_by_time_and_from_both_ends(servers: str, cluster: Cluster, topic: str) -> None:
    (partition,) = create(cluster, topic)
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(100):
            producer.send(topic, b"%d" % number, timestamp_ms=1_700_000_000_000 + 1000 * number)
    admin = Admin(cluster)
    with reading(servers, partition) as consumer:
        consumer.seek_to_time(1_700_000_041_500, partition)
        assert read(consumer, 58)[0].value == b"42"
        consumer.seek(partition, 98)
        assert [record.value for record in read(consumer, 2)] == [b"98", b"99"]
        assert consumer.beginning_offsets(partition) == {partition: 0}
        assert consumer.end_offsets(partition) == {partition: 100}
        assert admin.delete_records({partition: Offset(10)}) == {partition: 10}
        assert consumer.beginning_offsets(partition) == {partition: 10}
        assert admin.offsets_at([partition], EARLIEST) == {partition: 10}


def test_a_cluster_tells_about_itself(servers: str, cluster: Cluster, topic: str) -> None:
    (partition,) = create(cluster, topic, retention_ms="100000")
    admin = Admin(cluster)
    described = admin.describe_cluster()
    assert [node.id for node in described.brokers] == [NodeId(1)]
    resource = Resource(ResourceType.TOPIC, topic)
    admin.alter_configs(resource, {"segment.bytes": (ConfigChange.SET, "1048576")})
    end = time.monotonic() + SECONDS_MAX
    own: dict[str, str | None] = {}
    while own != {"retention.ms": "100000", "segment.bytes": "1048576"}:
        assert time.monotonic() < end, own
        entries = admin.describe_configs(resource)
        own = {entry.name: entry.value for entry in entries if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG}
    (directory,) = admin.describe_log_dirs(NodeId(1), {partition.topic: [partition.partition]})
    assert [replica.partition for replica in directory.replicas] == [partition]
    assert 0 in admin.api_versions(described.brokers[0])
    assert partition.topic in [found.name for found in admin.list_topics()]
    assert admin.delete_topics([partition.topic]) == {partition.topic: None}


def test_refusals_come_with_their_code(servers: str, cluster: Cluster, topic: str) -> None:
    create(cluster, topic)
    admin, name = Admin(cluster), TopicName(topic)
    answers = {
        ErrorCode.TOPIC_ALREADY_EXISTS: admin.create_topics([NewTopic(name)])[name],
        ErrorCode.INVALID_TOPIC_EXCEPTION: admin.create_topics([NewTopic(TopicName("a/b"))])[TopicName("a/b")],
        ErrorCode.INVALID_REPLICATION_FACTOR: admin.create_topics([NewTopic(TopicName("r"), 1, 9)])[TopicName("r")],
        ErrorCode.INVALID_PARTITIONS: admin.create_partitions({name: 1})[name],
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: admin.delete_topics([TopicName("nowhere")])[TopicName("nowhere")],
        ErrorCode.OFFSET_OUT_OF_RANGE: admin.delete_records({TopicPartition(name, PartitionIndex(0)): Offset(9)})[
            TopicPartition(name, PartitionIndex(0))
        ],
    }
    for code, answer in answers.items():
        assert isinstance(answer, Rejected), code
        assert answer.code == code


@pytest.mark.req("E8", "H10", "J1", "J4")
def test_nothing_is_lost_or_doubled_while_the_broker_goes_down_and_comes_back(
    broker: ServerProcess, topic: str, request: pytest.FixtureRequest
) -> None:
    written: list[int] = []
    stop = threading.Event()

    def restart() -> None:
        for how in (broker.restart, broker.kill, broker.start):
            time.sleep(0.4)
            how()
        stop.set()

    with Cluster(broker.bootstrap_servers) as cluster:
        (partition,) = create(cluster, topic)
        restarting = threading.Thread(target=restart)
        restarting.start()
        request.addfinalizer(restarting.join)
        with Producer(bootstrap_servers=broker.bootstrap_servers, linger_ms=1, batch_size=2000) as producer:
            number = 0
            while not stop.is_set() or number < 2000:

                def delivered(metadata: RecordMetadata | None, error: ClientError | None, number: int = number) -> None:
                    written.append(number if error is None else -1)

                producer.send(topic, b"%d" % number, on_delivery=delivered)
                number += 1
                if number % 20 == 0:
                    time.sleep(0.002)
        restarting.join()
        assert written == list(range(number))
        with reading(broker.bootstrap_servers, partition) as consumer:
            found = read(consumer, number)
        assert [int(record.value or b"") for record in found] == written
        assert Admin(cluster).offsets_at([partition], LATEST) == {partition: number}


def test_a_consumer_reads_on_after_the_broker_was_away(broker: ServerProcess, topic: str) -> None:
    with Cluster(broker.bootstrap_servers) as cluster:
        (partition,) = create(cluster, topic)
    with (
        Producer(bootstrap_servers=broker.bootstrap_servers) as producer,
        reading(broker.bootstrap_servers, partition) as consumer,
    ):
        for number in range(2):
            producer.send(topic, b"%d" % number)
            producer.flush()
            assert [record.offset for record in read(consumer, 1)] == [number]
            broker.restart()
