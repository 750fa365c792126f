"""confluent-kafka (librdkafka) against a running broker: topics, settings, records, positions."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from drivers.confluent_driver import COMPRESSIONS, SECONDS_MAX, consume, consumer, produce, producer, to_record
from drivers.corpus import FIRST_TIMESTAMP_MS, Record, any_records

from harness.server import ServerProcess
from harness.waiting import wait_until

RECORDS = any_records(100_000)


@pytest.fixture(scope="module")
def admin(broker: ServerProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap_servers})


def create(admin: AdminClient, topic: str, partitions: int = 1, **config: str) -> str:
    settings = {name.replace("_", "."): value for name, value in config.items()}
    result(admin.create_topics([NewTopic(topic, partitions, 1, config=settings)]))
    # Kafka answers when the controller has created it; brokers hear of it a moment later.
    wait_until(lambda: topic in admin.list_topics(timeout=10).topics)
    return topic


def result(futures: dict[Any, Future[Any]]) -> Any:
    """The result of a call about one thing."""
    (future,) = futures.values()
    return future.result(SECONDS_MAX)


def refusal(futures: dict[Any, Future[Any]]) -> int:
    """The error code with which a call about one thing is refused."""
    with pytest.raises(KafkaException) as raised:
        result(futures)
    code: int = raised.value.args[0].code()
    return code


@pytest.mark.req("A13", "A15", "D22")
def test_a_topic_is_created_listed_described_and_deleted(admin: AdminClient, topic: str) -> None:
    create(admin, topic, partitions=3, retention_ms="3600000")

    assert len(admin.list_topics(timeout=10).topics[topic].partitions) == 3
    described = result(admin.describe_topics(_names(topic)))
    assert [partition.id for partition in described.partitions] == [0, 1, 2]
    assert {partition.leader.id for partition in described.partitions} == {1}
    assert [[node.id for node in partition.isr] for partition in described.partitions] == [[1], [1], [1]]
    assert str(described.topic_id) not in ("", "AAAAAAAAAAAAAAAAAAAAAA")

    result(admin.delete_topics([topic]))
    wait_until(lambda: topic not in admin.list_topics(timeout=10).topics)
    assert refusal(admin.delete_topics([topic])) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_a_topic_that_is_made_again_is_another_topic_and_empty(
    admin: AdminClient, broker: ServerProcess, topic: str
) -> None:
    create(admin, topic)
    first_id = result(admin.describe_topics(_names(topic))).topic_id
    produce(broker.bootstrap_servers, topic, RECORDS[:100])

    result(admin.delete_topics([topic]))
    wait_until(lambda: topic not in admin.list_topics(timeout=10).topics)
    create(admin, topic)

    assert str(result(admin.describe_topics(_names(topic))).topic_id) != str(first_id)
    produce(broker.bootstrap_servers, topic, RECORDS[500:600])
    assert consume(broker.bootstrap_servers, topic, 100) == RECORDS[500:600]


@pytest.mark.parametrize(
    ("name", "partitions", "replicas", "config", "error"),
    [
        ("bad name", 1, 1, {}, KafkaError.TOPIC_EXCEPTION),
        ("..", 1, 1, {}, KafkaError.TOPIC_EXCEPTION),
        ("n" * 250, 1, 1, {}, KafkaError.TOPIC_EXCEPTION),
        ("no-partitions", 0, 1, {}, KafkaError.INVALID_PARTITIONS),
        ("two-replicas", 1, 2, {}, KafkaError.INVALID_REPLICATION_FACTOR),
        ("bad-value", 1, 1, {"retention.ms": "soon"}, KafkaError.INVALID_CONFIG),
        ("bad-key", 1, 1, {"retention.parsecs": "12"}, KafkaError.INVALID_CONFIG),
    ],
)
def test_a_topic_that_cannot_be_is_refused(
    admin: AdminClient, name: str, partitions: int, replicas: int, config: dict[str, str], error: int
) -> None:
    assert refusal(admin.create_topics([NewTopic(name, partitions, replicas, config=config)])) == error
    assert name not in admin.list_topics(timeout=10).topics


def test_a_topic_exists_only_once_and_names_that_collide_in_metrics_are_refused(admin: AdminClient) -> None:
    create(admin, "collide.one")

    assert refusal(admin.create_topics([NewTopic("collide.one", 1, 1)])) == KafkaError.TOPIC_ALREADY_EXISTS
    assert refusal(admin.create_topics([NewTopic("collide_one", 1, 1)])) == KafkaError.TOPIC_EXCEPTION


def test_a_topic_that_is_only_validated_is_not_created(admin: AdminClient, topic: str) -> None:
    result(admin.create_topics([NewTopic(topic, 2, 1)], validate_only=True))

    assert topic not in admin.list_topics(timeout=10).topics


@pytest.mark.req("S14")
def test_partitions_are_added_but_never_taken_away(admin: AdminClient, topic: str) -> None:
    create(admin, topic, partitions=1)

    result(admin.create_partitions([NewPartitions(topic, 4)]))

    wait_until(lambda: len(admin.list_topics(timeout=10).topics[topic].partitions) == 4)
    assert refusal(admin.create_partitions([NewPartitions(topic, 2)])) == KafkaError.INVALID_PARTITIONS


def test_settings_of_a_topic_are_described_altered_and_reset(
    admin: AdminClient, broker: ServerProcess, topic: str
) -> None:
    create(admin, topic, retention_ms="7200000")

    def setting(name: str) -> ConfigEntry:
        return result(admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]))[name]

    def alter(name: str, value: str | None, operation: AlterConfigOpType) -> Any:
        entry = ConfigEntry(name, value, incremental_operation=operation)
        return admin.incremental_alter_configs([ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])])

    assert setting("retention.ms").value == "7200000"
    assert not setting("retention.ms").is_default
    assert setting("segment.bytes").value == "1073741824"
    assert setting("segment.bytes").is_default

    result(alter("segment.bytes", "2097152", AlterConfigOpType.SET))
    result(alter("cleanup.policy", "compact", AlterConfigOpType.APPEND))
    result(alter("retention.ms", None, AlterConfigOpType.DELETE))
    assert refusal(alter("retention.ms", "soon", AlterConfigOpType.SET)) == KafkaError.INVALID_CONFIG

    broker.restart()
    assert setting("segment.bytes").value == "2097152"
    assert setting("cleanup.policy").value == "delete,compact"
    assert setting("retention.ms").value == "604800000"
    assert setting("retention.ms").is_default


@pytest.mark.req("F12")
def test_settings_of_the_broker_are_described_and_changed_while_it_runs(admin: AdminClient) -> None:
    broker_resource = ConfigResource(ResourceType.BROKER, "1")
    assert result(admin.describe_configs([broker_resource]))["node.id"].value == "1"

    entry = ConfigEntry("log.retention.ms", "86400000", incremental_operation=AlterConfigOpType.SET)
    result(admin.incremental_alter_configs([ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])]))
    try:
        wait_until(lambda: result(admin.describe_configs([broker_resource]))["log.retention.ms"].value == "86400000")
    finally:
        undo = ConfigEntry("log.retention.ms", None, incremental_operation=AlterConfigOpType.DELETE)
        result(admin.incremental_alter_configs([ConfigResource(ResourceType.BROKER, "1", incremental_configs=[undo])]))


def test_the_cluster_describes_itself(admin: AdminClient, broker: ServerProcess) -> None:
    cluster = admin.describe_cluster().result(SECONDS_MAX)

    assert [(node.id, node.host, node.port) for node in cluster.nodes] == [(1, "127.0.0.1", broker.port)]
    assert cluster.controller.id == 1
    assert len(cluster.cluster_id) == 22


@pytest.mark.req("A3", "A17", "A19", "A20")
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_100_000_records_of_every_shape_come_back_unchanged_over_restarts(
    admin: AdminClient, broker: ServerProcess, topic: str, compression: str
) -> None:
    create(admin, topic)

    produce(broker.bootstrap_servers, topic, RECORDS[:50_000], compression=compression)
    broker.restart()
    produce(broker.bootstrap_servers, topic, RECORDS[50_000:], compression=compression)
    broker.restart()

    assert consume(broker.bootstrap_servers, topic, len(RECORDS)) == RECORDS


@pytest.mark.req("A15", "I3", "I6")
def test_records_with_one_key_stay_in_order_in_one_partition(
    admin: AdminClient, broker: ServerProcess, topic: str
) -> None:
    create(admin, topic, partitions=4)
    client = producer(broker.bootstrap_servers)
    for number in range(10_000):
        client.produce(topic, str(number).encode(), b"key-%d" % (number % 50))
    assert client.flush(SECONDS_MAX) == 0

    place_of: dict[bytes, int] = {}
    last_of: dict[bytes, int] = {}
    reader = consumer(broker.bootstrap_servers)
    reader.assign([TopicPartition(topic, partition, 0) for partition in range(4)])
    for message in take(reader, 10_000):
        key, number = message.key(), int(message.value())
        assert place_of.setdefault(key, message.partition()) == message.partition()
        assert last_of.get(key, -1) < number
        last_of[key] = number
    assert len(set(place_of.values())) == 4


@pytest.mark.req("C9")
def test_what_was_acknowledged_is_there_after_kill_9(admin: AdminClient, broker: ServerProcess, topic: str) -> None:
    create(admin, topic)
    produce(broker.bootstrap_servers, topic, RECORDS[:20_000])

    broker.kill()
    broker.start()

    assert consume(broker.bootstrap_servers, topic, 20_000) == RECORDS[:20_000]
    produce(broker.bootstrap_servers, topic, RECORDS[20_000:21_000])
    assert consume(broker.bootstrap_servers, topic, 1_000, offset=20_000) == RECORDS[20_000:21_000]


@pytest.mark.req("E1", "E2", "E3")
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_records_arrive_with_every_level_of_acknowledgement(
    admin: AdminClient, broker: ServerProcess, topic: str, acks: str
) -> None:
    create(admin, topic)

    produce(broker.bootstrap_servers, topic, RECORDS[:5_000], acks=acks)

    assert consume(broker.bootstrap_servers, topic, 5_000) == RECORDS[:5_000]


@pytest.mark.req("J1", "J2", "J3", "J4", "E8")
def test_an_idempotent_producer_rides_over_restarts_without_loss_or_copies(
    admin: AdminClient, broker: ServerProcess, topic: str
) -> None:
    create(admin, topic)
    restarting = threading.Thread(target=lambda: [_pause_and(broker.restart), _pause_and(broker.restart)])
    client = producer(broker.bootstrap_servers, enable_idempotence=True, linger_ms=1)
    failures: list[KafkaError] = []
    sent: list[Record] = []

    restarting.start()
    while restarting.is_alive():
        record = RECORDS[len(sent)]
        client.produce(
            topic,
            record.value,
            record.key,
            0,
            on_delivery=lambda error, message: failures.append(error) if error else None,
            timestamp=record.timestamp_ms,
            headers=list(record.headers),
        )
        sent.append(record)
        client.poll(0.001)
    assert client.flush(SECONDS_MAX) == 0

    assert failures == []
    assert len(sent) > 500
    assert consume(broker.bootstrap_servers, topic, len(sent)) == sent


@pytest.mark.req("A5", "K6", "K7", "K8")
def test_consumers_seek_by_offset_each_on_its_own(admin: AdminClient, broker: ServerProcess, topic: str) -> None:
    create(admin, topic)
    produce(broker.bootstrap_servers, topic, RECORDS[:10_000])
    one, other = consumer(broker.bootstrap_servers), consumer(broker.bootstrap_servers)
    one.assign([TopicPartition(topic, 0, 0)])
    other.assign([TopicPartition(topic, 0, 9_000)])

    assert next(iter(take(one, 1))).offset() == 0
    for offset in (7_777, 1, 9_999):
        one.seek(TopicPartition(topic, 0, offset))
        assert to_record(next(iter(take(one, 1)))) == RECORDS[offset]
    assert [message.offset() for message in take(other, 1_000)] == list(range(9_000, 10_000))
    one.close()
    other.close()


@pytest.mark.req("B6", "K12")
def test_consumers_find_offsets_by_time(admin: AdminClient, broker: ServerProcess, topic: str) -> None:
    create(admin, topic)
    produce(broker.bootstrap_servers, topic, RECORDS[:50_000])
    client = consumer(broker.bootstrap_servers)

    def offset_at(timestamp_ms: int) -> int:
        (found,) = client.offsets_for_times([TopicPartition(topic, 0, timestamp_ms)], SECONDS_MAX)
        offset: int = found.offset
        return offset

    for number in (0, 1, 12_345, 49_999):
        assert offset_at(FIRST_TIMESTAMP_MS + number) == number
    assert offset_at(FIRST_TIMESTAMP_MS - 10_000) == 0
    assert offset_at(FIRST_TIMESTAMP_MS + 50_000) == -1, "no record is that young: the position is the end"
    client.close()


def test_offsets_are_listed_earliest_latest_and_of_the_youngest_record(
    admin: AdminClient, broker: ServerProcess, topic: str
) -> None:
    create(admin, topic)
    shuffled = [RECORDS[3], RECORDS[9], RECORDS[5]]
    produce(broker.bootstrap_servers, topic, shuffled)

    def listed(spec: OffsetSpec) -> tuple[int, int]:
        found = result(admin.list_offsets({TopicPartition(topic, 0): spec}))
        return found.offset, found.timestamp

    assert listed(OffsetSpec.earliest())[0] == 0
    assert listed(OffsetSpec.latest())[0] == 3
    assert listed(OffsetSpec.max_timestamp()) == (1, FIRST_TIMESTAMP_MS + 9)
    assert listed(OffsetSpec.for_timestamp(FIRST_TIMESTAMP_MS + 4)) == (1, FIRST_TIMESTAMP_MS + 9)


def test_deleted_records_are_gone_and_stay_gone(admin: AdminClient, broker: ServerProcess, topic: str) -> None:
    create(admin, topic)
    produce(broker.bootstrap_servers, topic, RECORDS[:1_000])

    assert result(admin.delete_records([TopicPartition(topic, 0, 400)])).low_watermark == 400
    too_far = admin.delete_records([TopicPartition(topic, 0, 5_000)])
    assert refusal(too_far) == KafkaError.OFFSET_OUT_OF_RANGE
    broker.restart()

    client = consumer(broker.bootstrap_servers, auto_offset_reset="earliest")
    client.assign([TopicPartition(topic, 0, 5)])
    assert [message.offset() for message in take(client, 600)] == list(range(400, 1_000))
    assert client.get_watermark_offsets(TopicPartition(topic, 0), SECONDS_MAX) == (400, 1_000)
    client.close()


def test_an_offset_beyond_the_end_is_out_of_range(admin: AdminClient, broker: ServerProcess, topic: str) -> None:
    create(admin, topic)
    produce(broker.bootstrap_servers, topic, RECORDS[:10])
    client = consumer(broker.bootstrap_servers)
    client.assign([TopicPartition(topic, 0, 5_000)])

    (message,) = client.consume(1, timeout=SECONDS_MAX)

    assert message.error().code() == KafkaError._AUTO_OFFSET_RESET
    client.close()


def test_a_consumer_that_waits_gets_a_record_as_soon_as_it_is_written(
    admin: AdminClient, broker: ServerProcess, topic: str
) -> None:
    create(admin, topic)
    client = consumer(broker.bootstrap_servers, fetch_wait_max_ms=20_000)
    client.assign([TopicPartition(topic, 0, 0)])
    client.poll(1)
    writer = producer(broker.bootstrap_servers, linger_ms=0)
    writer.list_topics(topic, SECONDS_MAX)

    began = time.monotonic()
    writer.produce(topic, b"now", partition=0)
    writer.flush(SECONDS_MAX)
    message = client.poll(SECONDS_MAX)

    assert message is not None
    assert message.value() == b"now"
    assert time.monotonic() - began < 10, "the waiting fetch was not woken by the record"
    client.close()


def test_a_record_larger_than_the_topic_allows_is_refused(
    admin: AdminClient, broker: ServerProcess, topic: str
) -> None:
    create(admin, topic, max_message_bytes="10000")

    with pytest.raises(AssertionError, match="MSG_SIZE_TOO_LARGE"):
        produce(broker.bootstrap_servers, topic, [Record(None, b"x" * 20_000, (), FIRST_TIMESTAMP_MS)])

    produce(broker.bootstrap_servers, topic, [Record(None, b"x" * 9_000, (), FIRST_TIMESTAMP_MS)])


def test_a_topic_can_stamp_records_with_the_time_of_their_arrival(
    admin: AdminClient, broker: ServerProcess, topic: str
) -> None:
    create(admin, topic, message_timestamp_type="LogAppendTime")
    before_ms = int(time.time() * 1000)

    produce(broker.bootstrap_servers, topic, RECORDS[:100], compression="lz4")

    came = consume(broker.bootstrap_servers, topic, 100)
    assert [record.without_time() for record in came] == [record.without_time() for record in RECORDS[:100]]
    assert all(before_ms - 1000 <= record.timestamp_ms <= time.time() * 1000 + 1000 for record in came)


def test_an_unknown_topic_is_created_on_first_use_when_the_broker_allows_it(
    admin: AdminClient, broker: ServerProcess, topic: str
) -> None:
    produce(broker.bootstrap_servers, topic, RECORDS[:10])

    assert consume(broker.bootstrap_servers, topic, 10) == RECORDS[:10]
    assert topic in admin.list_topics(timeout=10).topics


def test_an_unknown_topic_is_refused_when_the_broker_does_not_create_topics(
    start_broker: Callable[..., ServerProcess], topic: str
) -> None:
    strict = start_broker({"auto.create.topics.enable": "false"})
    client = producer(strict.bootstrap_servers, topic_metadata_propagation_max_ms=1_000)
    errors: list[KafkaError] = []

    client.produce(topic, b"lost", on_delivery=lambda error, message: errors.append(error))
    client.flush(SECONDS_MAX)

    assert errors[0].code() in (KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_OR_PART)
    assert topic not in AdminClient({"bootstrap.servers": strict.bootstrap_servers}).list_topics(timeout=10).topics


def take(client: Consumer, count: int) -> Iterable[Any]:
    """The next `count` messages."""
    left = count
    while left:
        messages = client.consume(left, timeout=SECONDS_MAX)
        assert messages, f"{left} of {count} messages did not come"
        for message in messages:
            assert message.error() is None, message.error()
            yield message
        left -= len(messages)


def _names(topic: str) -> Any:
    return TopicCollection([topic])


def _pause_and(action: Callable[[], None]) -> None:
    time.sleep(1)
    action()
