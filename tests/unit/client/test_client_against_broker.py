"""Admin, producer and consumer with a broker in this process. (tests/clients has them with Apache Kafka, too.)"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tidelog
from tidelog.client.admin import HIGH_WATERMARK, Admin, accepted
from tidelog.client.cluster import Cluster
from tidelog.client.consumer import Consumer, OffsetReset
from tidelog.client.core.described import EARLIEST, LATEST, MAX_TIMESTAMP, NewTopic, OffsetAt
from tidelog.client.core.record import ConsumerRecord, RecordMetadata
from tidelog.client.errors import ClientError, Rejected
from tidelog.client.producer import Producer
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import Offset, PartitionIndex, TopicName, TopicPartition
from tidelog.wire.compression import Compression

Delivered = list[tuple[RecordMetadata | None, ClientError | None]]


@pytest.fixture(scope="module")
def broker() -> Iterator[tidelog.Broker]:
    with tidelog.Broker(config={"auto.create.topics.enable": False}) as running:
        yield running


@pytest.fixture
def cluster(broker: tidelog.Broker) -> Iterator[Cluster]:
    with Cluster(broker.bootstrap_servers) as connected:
        yield connected


def create(cluster: Cluster, name: str, partitions: int = 1, **configs: str) -> list[TopicPartition]:
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    accepted(Admin(cluster).create_topics([NewTopic(TopicName(name), partitions, configs=settings)])[TopicName(name)])
    return [TopicPartition(TopicName(name), PartitionIndex(index)) for index in range(partitions)]


def read_all(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    records: list[ConsumerRecord] = []
    while len(records) < count:
        found = consumer.poll(10)
        assert found, f"only {len(records)} of {count} records came"
        records += found
    return records


@pytest.mark.req("A17", "H4", "H6", "K4", "K6")
def test_what_is_written_is_read_in_order_with_its_offsets(cluster: Cluster, topic: str) -> None:
    (partition,) = create(cluster, topic)
    delivered: Delivered = []
    with Producer(cluster) as producer:
        for number in range(1000):
            value = b"%d" % number
            producer.send(partition.topic, value, b"key", on_delivery=lambda *result: delivered.append(result))
    assert [metadata.offset for metadata, _ in delivered if metadata] == list(range(1000))
    consumer = Consumer(cluster)
    consumer.assign({partition: Offset(0)})
    records = read_all(consumer, 1000)
    assert [(record.offset, record.value) for record in records] == [(n, b"%d" % n) for n in range(1000)]
    assert consumer.position(partition) == 1000
    assert consumer.high_watermark(partition) == 1000


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("acks", [0, 1, -1])
def test_every_codec_and_acknowledgement_works(cluster: Cluster, topic: str, codec: Compression, acks: int) -> None:
    (partition,) = create(cluster, topic)
    with Producer(cluster, acks=acks, compression=codec) as producer:
        for number in range(200):
            producer.send(partition.topic, b"v" * number, None if number % 2 else b"k", headers=(("h", b"x"),))
    consumer = Consumer(cluster)
    consumer.assign({partition: Offset(0)})
    records = read_all(consumer, 200)
    assert [(record.key, record.value) for record in records] == [
        (None if number % 2 else b"k", b"v" * number) for number in range(200)
    ]
    assert {record.headers for record in records} == {(("h", b"x"),)}


@pytest.mark.req("H11", "I6", "S14")
def test_many_partitions_are_written_and_read_at_once(cluster: Cluster, topic: str) -> None:
    partitions = create(cluster, topic, 20)
    with Producer(cluster) as producer:
        for number in range(2000):
            producer.send(TopicName(topic), b"%d" % number, partition=PartitionIndex(number % 20))
    for sessions in (True, False):
        consumer = Consumer(cluster, sessions=sessions)
        consumer.assign(dict.fromkeys(partitions, Offset(0)))
        records = read_all(consumer, 2000)
        for partition in partitions:
            values = [int(record.value or b"") for record in records if record.partition == partition.partition]
            assert values == list(range(partition.partition, 2000, 20))


@pytest.mark.req("K7", "K12")
def test_a_consumer_goes_to_the_beginning_the_end_a_time_or_the_last_records(cluster: Cluster, topic: str) -> None:
    (partition,) = create(cluster, topic)
    with Producer(cluster) as producer:
        for number in range(10):
            producer.send(partition.topic, b"%d" % number, timestamp_ms=1_000_000 + number * 1000)
    consumer = Consumer(cluster)
    consumer.seek_to_time([partition], 1_004_500)
    assert consumer.position(partition) == 5
    consumer.seek_to_time([partition], 9_999_999)
    assert consumer.position(partition) == 10
    consumer.seek_to_time([partition], EARLIEST)
    assert consumer.position(partition) == 0
    consumer.seek_to_last([partition], 3)
    assert [record.value for record in read_all(consumer, 3)] == [b"7", b"8", b"9"]
    consumer.seek(partition, Offset(8))
    assert [record.value for record in read_all(consumer, 2)] == [b"8", b"9"]
    assert Admin(cluster).list_offsets({partition: MAX_TIMESTAMP})[partition] == OffsetAt(Offset(9), 1_009_000, 0)  # type: ignore[arg-type]


def test_a_position_that_is_gone_is_reset_as_asked(cluster: Cluster, topic: str) -> None:
    (partition,) = create(cluster, topic)
    with Producer(cluster) as producer:
        for number in range(10):
            producer.send(partition.topic, b"%d" % number)
    assert Admin(cluster).delete_records({partition: Offset(4)}) == {partition: 4}
    earliest = Consumer(cluster, offset_reset=OffsetReset.EARLIEST)
    earliest.assign({partition: Offset(0)})
    assert read_all(earliest, 6)[0].offset == 4
    strict = Consumer(cluster, offset_reset=None)
    strict.assign({partition: Offset(0)})
    with pytest.raises(Rejected, match="outside of what the partition holds"):
        strict.poll(10)
    assert Admin(cluster).delete_records({partition: HIGH_WATERMARK}) == {partition: 10}


def test_waiting_for_records_ends_when_the_time_is_up(cluster: Cluster, topic: str) -> None:
    (partition,) = create(cluster, topic)
    consumer = Consumer(cluster, fetch_wait_s=0.05)
    consumer.assign({partition: Offset(0)})
    assert consumer.poll(0.2) == []


def test_a_topic_that_does_not_exist_is_told_apart_from_other_trouble(cluster: Cluster) -> None:
    with pytest.raises(Rejected, match="Topic 'nowhere' does not exist"):
        Consumer(cluster).partitions_of("nowhere")
    missing = TopicPartition(TopicName("nowhere"), PartitionIndex(0))
    answer = Admin(cluster).list_offsets({missing: LATEST})[missing]
    assert isinstance(answer, Rejected)
    assert answer.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_partition_that_does_not_exist_is_refused_without_waiting(cluster: Cluster, topic: str) -> None:
    create(cluster, topic)
    delivered: Delivered = []
    with Producer(cluster) as producer:
        producer.send(
            TopicName(topic), b"", partition=PartitionIndex(5), on_delivery=lambda *result: delivered.append(result)
        )
    ((metadata, error),) = delivered
    assert metadata is None
    assert str(error) == f"Topic '{topic}' has 1 partitions, but no partition 5."


def test_a_batch_that_is_too_large_fails_alone_and_the_next_one_is_written(cluster: Cluster, topic: str) -> None:
    (partition,) = create(cluster, topic, max_message_bytes="1000")
    delivered: Delivered = []
    producer = Producer(cluster)
    for size in (10, 5000, 20):
        producer.send(partition.topic, b"x" * size, on_delivery=lambda *result: delivered.append(result))
        producer.flush()
    assert [None if metadata is None else metadata.offset for metadata, _ in delivered] == [0, None, 1]
    assert isinstance(delivered[1][1], Rejected)
    assert delivered[1][1].code == ErrorCode.MESSAGE_TOO_LARGE
    with pytest.raises(Rejected, match="larger than the limit"):
        producer.send(partition.topic, b"x" * 2_000_000)


def test_describing_many_partitions_takes_several_pages(cluster: Cluster, topic: str) -> None:
    create(cluster, topic, 25)
    described = accepted(Admin(cluster).describe_topics([TopicName(topic)], partitions_per_answer=7)[TopicName(topic)])
    assert [partition.index for partition in described.partitions] == list(range(25))
    assert described.replication_factor == 1


def test_partitions_are_added(cluster: Cluster, topic: str) -> None:
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
            producer, consumer = Producer(cluster), Consumer(cluster, fetch_wait_s=0.05)
            consumer.assign({partition: Offset(0)})
            for number in range(3):
                producer.send(partition.topic, b"%d" % number)
                producer.flush()
                assert [record.value for record in read_all(consumer, 1)] == [b"%d" % number]
                running.stop()
                running.start()
    finally:
        running.stop()
