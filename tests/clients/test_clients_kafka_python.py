"""kafka-python against a running broker: topics, settings, records, positions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest
from drivers.corpus import FIRST_TIMESTAMP_MS, Record, any_records
from drivers.kafka_python_driver import COMPRESSIONS, SECONDS_MAX, consume, consumer, produce, producer, to_record
from kafka import KafkaConsumer, TopicPartition
from kafka.admin import AlterConfigOp, ConfigResource, ConfigResourceType, KafkaAdminClient, OffsetSpec
from kafka.errors import (
    InvalidConfigurationError,
    InvalidPartitionsError,
    InvalidReplicationFactorError,
    InvalidTopicError,
    KafkaError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    OffsetOutOfRangeError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)

from harness.server import ServerProcess
from harness.waiting import wait_until

RECORDS = any_records(100_000, null_headers=False)


@pytest.fixture
def admin(broker: ServerProcess) -> Iterator[KafkaAdminClient]:
    """One for each test: after a restart of the broker this client gives up for a while."""
    client = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    yield client
    client.close()


def create(admin: KafkaAdminClient, topic: str, partitions: int = 1, **config: str) -> str:
    settings = {name.replace("_", "."): value for name, value in config.items()}
    wanted = {topic: {"num_partitions": partitions, "replication_factor": 1, "configs": settings}}
    admin.create_topics(wanted, wait_for_metadata=True)
    return topic


@pytest.mark.req("A13", "A15")
def test_a_topic_is_created_listed_described_and_deleted(admin: KafkaAdminClient, topic: str) -> None:
    create(admin, topic, partitions=3)

    assert topic in admin.list_topics()
    (described,) = admin.describe_topics([topic])
    assert sorted(part["partition_index"] for part in described["partitions"]) == [0, 1, 2]
    assert {part["leader_id"] for part in described["partitions"]} == {1}
    assert {tuple(part["isr_nodes"]) for part in described["partitions"]} == {(1,)}

    admin.delete_topics([topic])
    wait_until(lambda: topic not in admin.list_topics())
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.delete_topics([topic])


def test_a_topic_is_described_and_deleted_by_its_id(admin: KafkaAdminClient, topic: str) -> None:
    create(admin, topic)
    topic_id = UUID(admin.describe_topics([topic])[0]["topic_id"])

    assert [described["name"] for described in admin.describe_topics([topic_id])] == [topic]
    admin.delete_topics([topic_id])
    wait_until(lambda: topic not in admin.list_topics())


def test_partitions_are_described_page_by_page(admin: KafkaAdminClient, topic: str) -> None:
    create(admin, topic, partitions=5)

    first = admin.describe_topic_partitions([topic], response_partition_limit=3)
    second = admin.describe_topic_partitions([topic], response_partition_limit=3, cursor=first["next_cursor"])

    pages = [[part["partition_index"] for part in page["topics"][0]["partitions"]] for page in (first, second)]
    assert pages == [[0, 1, 2], [3, 4]]
    assert second["next_cursor"] is None


@pytest.mark.parametrize(
    ("name", "options", "error"),
    [
        ("bad name", {}, InvalidTopicError),
        ("", {}, InvalidTopicError),
        ("no-partitions", {"num_partitions": 0}, InvalidPartitionsError),
        ("two-replicas", {"replication_factor": 2}, InvalidReplicationFactorError),
        ("bad-value", {"configs": {"cleanup.policy": "burn"}}, InvalidConfigurationError),
    ],
)
def test_a_topic_that_cannot_be_is_refused(
    admin: KafkaAdminClient, name: str, options: dict[str, Any], error: type[KafkaError]
) -> None:
    with pytest.raises(error):
        admin.create_topics({name: {"num_partitions": 1, "replication_factor": 1, **options}})
    assert name not in admin.list_topics()


def test_a_topic_exists_only_once(admin: KafkaAdminClient, topic: str) -> None:
    create(admin, topic)

    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics([topic])


def test_a_topic_that_is_only_validated_is_not_created(admin: KafkaAdminClient, topic: str) -> None:
    admin.create_topics([topic], validate_only=True)

    assert topic not in admin.list_topics()


def test_partitions_are_added_but_never_taken_away(admin: KafkaAdminClient, topic: str) -> None:
    create(admin, topic)

    admin.create_partitions({topic: 4})

    wait_until(lambda: len(admin.describe_topics([topic])[0]["partitions"]) == 4)
    with pytest.raises(InvalidPartitionsError):
        admin.create_partitions({topic: 2})


def test_settings_of_a_topic_are_described_altered_and_reset(admin: KafkaAdminClient, topic: str) -> None:
    create(admin, topic, retention_ms="7200000")

    def settings(only: str = "modified") -> dict[str, Any]:
        described = admin.describe_configs([ConfigResource("TOPIC", topic)], config_filter=only)
        found: dict[str, Any] = described["topic"][topic]
        return found

    def alter(configs: dict[str, Any]) -> None:
        admin.alter_configs([ConfigResource("TOPIC", topic, configs=configs)])

    assert settings()["retention.ms"]["value"] == "7200000"
    assert settings("all")["segment.bytes"]["value"] == "1073741824"

    alter({"segment.bytes": "2097152", "cleanup.policy": (AlterConfigOp.APPEND, "compact")})
    wait_until(lambda: settings()["segment.bytes"]["value"] == "2097152")
    assert settings()["cleanup.policy"]["value"] == "delete,compact"

    admin.reset_configs([ConfigResource("TOPIC", topic, configs=["retention.ms"])])
    wait_until(lambda: "retention.ms" not in settings())
    assert settings("all")["retention.ms"]["value"] == "604800000"


def test_settings_are_replaced_as_a_whole_by_the_older_call(admin: KafkaAdminClient, topic: str) -> None:
    create(admin, topic, retention_ms="7200000")

    admin.alter_configs([ConfigResource("TOPIC", topic, configs={"segment.bytes": "2097152"})], incremental=False)

    def values() -> dict[str, str]:
        found = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])["topic"][topic]
        return {name: setting["value"] for name, setting in found.items()}

    # kafka-python reads what is set and sends it along, so that nothing set is lost.
    wait_until(lambda: values().get("segment.bytes") == "2097152")
    assert values()["retention.ms"] == "7200000"


def test_the_cluster_and_its_log_folders_describe_themselves(
    admin: KafkaAdminClient, broker: ServerProcess, topic: str
) -> None:
    create(admin, topic)
    produce(broker.bootstrap_servers, topic, RECORDS[:1_000])

    cluster = admin.describe_cluster()
    assert [(node["broker_id"], node["host"], node["port"]) for node in cluster["brokers"]] == [
        (1, "127.0.0.1", broker.port)
    ]
    assert cluster["controller_id"] == 1

    (described,) = admin.describe_log_dirs([topic])
    (folder,) = described["log_dirs"]
    (found,) = [entry for entry in folder["topics"] if entry.get("topic", entry.get("name")) == topic]
    log_file = broker.folder / "data" / f"{topic}-0" / f"{0:020d}.log"
    assert found["partitions"][0]["partition_size"] == log_file.stat().st_size


@pytest.mark.req("A3", "A17", "A19")
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_100_000_records_of_every_shape_come_back_unchanged_over_restarts(
    admin: KafkaAdminClient, broker: ServerProcess, topic: str, compression: str
) -> None:
    create(admin, topic)

    produce(broker.bootstrap_servers, topic, RECORDS[:50_000], compression=compression)
    broker.restart()
    produce(broker.bootstrap_servers, topic, RECORDS[50_000:], compression=compression)
    broker.restart()

    assert consume(broker.bootstrap_servers, topic, len(RECORDS)) == RECORDS


@pytest.mark.req("E1", "E2", "E3")
@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_records_arrive_with_every_level_of_acknowledgement(
    admin: KafkaAdminClient, broker: ServerProcess, topic: str, acks: int | str
) -> None:
    create(admin, topic)

    produce(broker.bootstrap_servers, topic, RECORDS[:2_000], acks=acks)

    assert consume(broker.bootstrap_servers, topic, 2_000) == RECORDS[:2_000]


def test_a_send_tells_where_its_record_is(admin: KafkaAdminClient, broker: ServerProcess, topic: str) -> None:
    create(admin, topic, partitions=2)
    client = producer(broker.bootstrap_servers)
    told: list[tuple[str, int, int]] = []

    for _ in range(3):
        client.send(topic, b"there", partition=1).add_callback(
            lambda at: told.append((at.topic, at.partition, at.offset))
        )
    client.flush()
    last = client.send(topic, b"and there", partition=1).get(SECONDS_MAX)
    client.close()

    assert told == [(topic, 1, 0), (topic, 1, 1), (topic, 1, 2)]
    assert (last.topic, last.partition, last.offset) == (topic, 1, 3)


@pytest.mark.req("J1")
def test_an_idempotent_producer_writes_each_record_once(
    admin: KafkaAdminClient, broker: ServerProcess, topic: str
) -> None:
    create(admin, topic)

    produce(broker.bootstrap_servers, topic, RECORDS[:10_000], idempotent=True)
    broker.restart()
    produce(broker.bootstrap_servers, topic, RECORDS[10_000:20_000], idempotent=True)

    assert consume(broker.bootstrap_servers, topic, 20_000) == RECORDS[:20_000]
    reader = consumer(broker.bootstrap_servers)
    assert reader.end_offsets([TopicPartition(topic, 0)]) == {TopicPartition(topic, 0): 20_000}
    reader.close()


@pytest.mark.req("K6", "K7")
def test_a_consumer_seeks_by_offset(admin: KafkaAdminClient, broker: ServerProcess, topic: str) -> None:
    create(admin, topic)
    produce(broker.bootstrap_servers, topic, RECORDS[:5_000])
    place = TopicPartition(topic, 0)
    client = consumer(broker.bootstrap_servers)
    client.assign([place])

    for offset in (4_321, 0, 4_999):
        client.seek(place, offset)
        assert to_record(first(client)) == RECORDS[offset]
    client.seek_to_beginning(place)
    assert client.position(place) == 0
    client.seek_to_end(place)
    assert client.position(place) == 5_000
    client.close()


@pytest.mark.req("B6", "K12")
def test_a_consumer_finds_offsets_by_time(admin: KafkaAdminClient, broker: ServerProcess, topic: str) -> None:
    create(admin, topic)
    produce(broker.bootstrap_servers, topic, RECORDS[:10_000])
    place = TopicPartition(topic, 0)
    client = consumer(broker.bootstrap_servers)

    for number in (0, 1_234, 9_999):
        found = client.offsets_for_times({place: FIRST_TIMESTAMP_MS + number})[place]
        assert (found.offset, found.timestamp) == (number, FIRST_TIMESTAMP_MS + number)
    assert client.offsets_for_times({place: FIRST_TIMESTAMP_MS + 10_000})[place] is None
    client.close()


def test_offsets_are_listed_earliest_latest_and_of_the_youngest_record(
    admin: KafkaAdminClient, broker: ServerProcess, topic: str
) -> None:
    create(admin, topic)
    produce(broker.bootstrap_servers, topic, [RECORDS[3], RECORDS[9], RECORDS[5]])
    place = TopicPartition(topic, 0)

    def listed(spec: OffsetSpec) -> Any:
        return admin.list_partition_offsets({place: spec})[place]

    assert listed(OffsetSpec.EARLIEST).offset == 0
    assert listed(OffsetSpec.LATEST).offset == 3
    assert listed(OffsetSpec.MAX_TIMESTAMP)[:2] == (1, FIRST_TIMESTAMP_MS + 9)


def test_deleted_records_are_gone(admin: KafkaAdminClient, broker: ServerProcess, topic: str) -> None:
    create(admin, topic)
    produce(broker.bootstrap_servers, topic, RECORDS[:1_000])
    place = TopicPartition(topic, 0)

    assert admin.delete_records({place: 400})[place]["low_watermark"] == 400

    client = consumer(broker.bootstrap_servers)
    assert client.beginning_offsets([place]) == {place: 400}
    client.assign([place])
    client.seek(place, 5)
    with pytest.raises(OffsetOutOfRangeError):
        client.poll(SECONDS_MAX * 1000)
    client.close()
    assert consume(broker.bootstrap_servers, topic, 600, offset=400) == RECORDS[400:1_000]


def test_a_record_larger_than_the_topic_allows_is_refused(
    admin: KafkaAdminClient, broker: ServerProcess, topic: str
) -> None:
    create(admin, topic, max_message_bytes="10000")

    with pytest.raises(MessageSizeTooLargeError):
        produce(broker.bootstrap_servers, topic, [Record(None, b"x" * 20_000, (), FIRST_TIMESTAMP_MS)])


def test_an_unknown_topic_is_created_on_first_use_when_the_broker_allows_it(
    admin: KafkaAdminClient, broker: ServerProcess, topic: str
) -> None:
    produce(broker.bootstrap_servers, topic, RECORDS[:10])

    assert consume(broker.bootstrap_servers, topic, 10) == RECORDS[:10]
    assert topic in admin.list_topics()


def test_an_unknown_topic_is_refused_when_the_broker_does_not_create_topics(
    start_broker: Callable[..., ServerProcess], topic: str
) -> None:
    strict = start_broker({"auto.create.topics.enable": "false"})
    client = producer(strict.bootstrap_servers, max_block_ms=1_000)

    with pytest.raises((KafkaTimeoutError, UnknownTopicOrPartitionError)):
        client.send(topic, b"lost").get(SECONDS_MAX)
    client.close()

    reader = consumer(strict.bootstrap_servers)
    assert topic not in reader.topics()
    reader.close()


def first(client: KafkaConsumer) -> Any:
    (messages,) = client.poll(SECONDS_MAX * 1000, max_records=1).values()
    return messages[0]
