"""Admin, producer and consumer with a broker in this process. (tests/clients has them with Apache Kafka, too.)"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import tidelog
from tidelog import Consumer, Producer
from tidelog.client.admin import HIGH_WATERMARK, Admin, accepted
from tidelog.client.cluster import Cluster
from tidelog.client.core.described import EARLIEST, LATEST, MAX_TIMESTAMP, NewTopic, OffsetAt
from tidelog.client.core.record import ConsumerRecord, RecordMetadata
from tidelog.client.errors import ClientError, Rejected
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import Offset, PartitionIndex, TopicName, TopicPartition
from tidelog.wire.compression import Compression

Delivered = list[tuple[RecordMetadata | None, ClientError | None]]


@pytest.fixture(scope="module")
def broker() -> Iterator[tidelog.Broker]:
    with tidelog.Broker(config={"auto.create.topics.enable": False}) as running:
        yield running


@pytest.fixture
def servers(broker: tidelog.Broker) -> str:
    return broker.bootstrap_servers


@pytest.fixture
def cluster(broker: tidelog.Broker) -> Iterator[Cluster]:
    with Cluster(broker.bootstrap_servers) as connected:
        yield connected


def create(cluster: Cluster, name: str, partitions: int = 1, **configs: str) -> list[TopicPartition]:
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    accepted(Admin(cluster).create_topics([NewTopic(TopicName(name), partitions, configs=settings)])[TopicName(name)])
    return [TopicPartition(TopicName(name), PartitionIndex(index)) for index in range(partitions)]


def reading(servers: str, *partitions: TopicPartition, **settings: Any) -> Consumer:
    """A consumer at the beginning of some partitions."""
    consumer = Consumer({"bootstrap_servers": servers, **settings})
    consumer.assign(partitions)
    for partition in partitions:
        consumer.seek(partition, 0)
    return consumer


def read_all(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    records: list[ConsumerRecord] = []
    while len(records) < count:
        found = consumer.poll(10)
        assert found, f"only {len(records)} of {count} records came"
        records += found
    return records


@pytest.mark.req("A17", "H4", "H6", "K4", "K6")
def test_what_is_written_is_read_in_order_with_its_offsets(servers: str, cluster: Cluster, topic: str) -> None:
    (partition,) = create(cluster, topic)
    delivered: Delivered = []
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(1000):
            value = b"%d" % number
            producer.send(partition.topic, value, b"key", on_delivery=lambda *result: delivered.append(result))
    assert [metadata.offset for metadata, _ in delivered if metadata] == list(range(1000))
    consumer = reading(servers, partition)
    records = read_all(consumer, 1000)
    assert [(record.offset, record.value) for record in records] == [(n, b"%d" % n) for n in range(1000)]
    assert consumer.position(partition) == 1000
    assert consumer.high_watermark(partition) == 1000
    consumer.close()


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("acks", [0, 1, -1])
def test_every_codec_and_acknowledgement_works(
    servers: str, cluster: Cluster, topic: str, codec: Compression, acks: int
) -> None:
    (partition,) = create(cluster, topic)
    with Producer(bootstrap_servers=servers, acks=acks, compression_type=codec) as producer:
        for number in range(200):
            producer.send(topic, b"v" * number, None if number % 2 else b"k", headers=(("h", b"x"),))
    with reading(servers, partition) as consumer:
        records = read_all(consumer, 200)
    assert [(record.key, record.value) for record in records] == [
        (None if number % 2 else b"k", b"v" * number) for number in range(200)
    ]
    assert {record.headers for record in records} == {(("h", b"x"),)}


@pytest.mark.req("H11", "I6", "S14")
def test_many_partitions_are_written_and_read_at_once(servers: str, cluster: Cluster, topic: str) -> None:
    partitions = create(cluster, topic, 20)
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(2000):
            producer.send(topic, b"%d" % number, partition=number % 20)
    with reading(servers, *partitions) as consumer:
        records = read_all(consumer, 2000)
    for partition in partitions:
        values = [int(record.value or b"") for record in records if record.partition == partition.partition]
        assert values == list(range(partition.partition, 2000, 20))


@pytest.mark.req("K7", "K12")
def test_a_consumer_goes_to_the_beginning_the_end_or_a_time(servers: str, cluster: Cluster, topic: str) -> None:
    (partition,) = create(cluster, topic)
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(10):
            producer.send(topic, b"%d" % number, timestamp_ms=1_000_000 + number * 1000)
    with reading(servers, partition) as consumer:
        consumer.seek_to_time(1_004_500, partition)
        assert consumer.position(partition) == 5
        consumer.seek_to_time(9_999_999, partition)
        assert consumer.position(partition) == 10
        consumer.seek_to_beginning()
        assert consumer.position(partition) == 0
        consumer.seek_to_end()
        assert consumer.position(partition) == 10
        consumer.seek(partition, 8)
        assert [record.value for record in read_all(consumer, 2)] == [b"8", b"9"]
    assert Admin(cluster).offsets_at([partition], 1_004_500) == {partition: 5}
    assert Admin(cluster).offsets_at([partition], 9_999_999) == {partition: 10}
    assert Admin(cluster).offsets_at([partition], EARLIEST) == {partition: 0}
    assert Admin(cluster).list_offsets({partition: MAX_TIMESTAMP})[partition] == OffsetAt(Offset(9), 1_009_000, 0)  # type: ignore[arg-type]


def test_a_position_that_is_gone_is_reset_as_asked(servers: str, cluster: Cluster, topic: str) -> None:
    (partition,) = create(cluster, topic)
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(10):
            producer.send(topic, b"%d" % number)
    assert Admin(cluster).delete_records({partition: Offset(4)}) == {partition: 4}
    with reading(servers, partition, auto_offset_reset="earliest") as earliest:
        assert read_all(earliest, 6)[0].offset == 4
    with (
        reading(servers, partition, auto_offset_reset="none") as strict,
        pytest.raises(Rejected, match="outside of what the partition holds"),
    ):
        strict.poll(10)
    assert Admin(cluster).delete_records({partition: HIGH_WATERMARK}) == {partition: 10}


def test_waiting_for_records_ends_when_the_time_is_up(servers: str, cluster: Cluster, topic: str) -> None:
    (partition,) = create(cluster, topic)
    with reading(servers, partition, fetch_max_wait_ms=50) as consumer:
        assert consumer.poll(0.2) == []


def test_a_topic_that_does_not_exist_is_told_apart_from_other_trouble(cluster: Cluster) -> None:
    with pytest.raises(Rejected, match="Topic 'nowhere' does not exist"):
        Admin(cluster).partitions_of("nowhere")
    missing = TopicPartition(TopicName("nowhere"), PartitionIndex(0))
    answer = Admin(cluster).list_offsets({missing: LATEST})[missing]
    assert isinstance(answer, Rejected)
    assert answer.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_partition_that_does_not_exist_is_refused_without_waiting(servers: str, cluster: Cluster, topic: str) -> None:
    create(cluster, topic)
    with (
        Producer(bootstrap_servers=servers) as producer,
        pytest.raises(Rejected, match=f"Topic '{topic}' has 1 partitions, but no partition 5."),
    ):
        producer.send(topic, b"", partition=5)


def test_a_batch_that_is_too_large_fails_alone_and_the_next_one_is_written(
    servers: str, cluster: Cluster, topic: str
) -> None:
    create(cluster, topic, max_message_bytes="1000")
    delivered: Delivered = []
    with Producer(bootstrap_servers=servers) as producer:
        for size in (10, 5000, 20):
            producer.send(topic, b"x" * size, on_delivery=lambda *result: delivered.append(result))
            producer.flush()
        assert [None if metadata is None else metadata.offset for metadata, _ in delivered] == [0, None, 1]
        assert isinstance(delivered[1][1], Rejected)
        assert delivered[1][1].code == ErrorCode.MESSAGE_TOO_LARGE
        with pytest.raises(Rejected, match="larger than the limit"):
            producer.send(topic, b"x" * 2_000_000)


def test_a_batch_that_only_together_is_too_large_is_sent_in_parts(servers: str, cluster: Cluster, topic: str) -> None:
    create(cluster, topic, max_message_bytes="1000")
    with Producer(bootstrap_servers=servers, linger_ms=60_000) as producer:
        deliveries = [producer.send(topic, b"%03d" % number * 50) for number in range(40)]
        producer.flush()
        assert [delivery.result(0).offset for delivery in deliveries] == list(range(40))
        last = producer.send(topic, b"the sequence goes on")
    assert last.result(0).offset == 40


def test_describing_many_partitions_takes_several_pages(servers: str, cluster: Cluster, topic: str) -> None:
    create(cluster, topic, 25)
    described = accepted(Admin(cluster).describe_topics([TopicName(topic)], partitions_per_answer=7)[TopicName(topic)])
    assert [partition.index for partition in described.partitions] == list(range(25))
    assert described.replication_factor == 1


def test_partitions_are_added(servers: str, cluster: Cluster, topic: str) -> None:
    create(cluster, topic)
    name = TopicName(topic)
    admin = Admin(cluster)
    assert admin.create_partitions({name: 4}, validate_only=True) == {name: None}
    assert admin.create_partitions({name: 4}) == {name: None}
    assert len(cluster.topic(name, cluster.deadline()).partitions) == 4
    refused = admin.create_partitions({name: 2})[name]
    assert refused is not None
    assert refused.code == ErrorCode.INVALID_PARTITIONS


def test_records_flow_on_after_a_restart_of_the_broker(tmp_path_factory: pytest.TempPathFactory, topic: str) -> None:
    running = tidelog.Broker(data=tmp_path_factory.mktemp("data")).start()
    try:
        with Cluster(running.bootstrap_servers) as cluster:
            (partition,) = create(cluster, topic)
        with (
            Producer(bootstrap_servers=running.bootstrap_servers) as producer,
            reading(running.bootstrap_servers, partition, fetch_max_wait_ms=50) as consumer,
        ):
            for number in range(3):
                producer.send(topic, b"%d" % number)
                producer.flush()
                assert [record.value for record in read_all(consumer, 1)] == [b"%d" % number]
                running.stop()
                running.start()
    finally:
        running.stop()
