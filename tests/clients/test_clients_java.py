"""Apache Kafka's own Java clients, through its command line tools, against a running broker."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from drivers import confluent_driver
from drivers.corpus import FIRST_TIMESTAMP_MS, Record, any_records, text_records
from drivers.java_driver import COMPRESSIONS, consume, produce

from harness.java import JavaTools, dump_log_segments, run_tool
from harness.server import ServerProcess

RECORDS = text_records(100_000)


def timeless(records: list[Record]) -> list[Record]:
    return [record.without_time() for record in records]


def create(tools: JavaTools, topic: str, *arguments: str) -> str:
    tools.topics("--create", "--topic", topic, "--replication-factor", "1", *arguments)
    return topic


@pytest.mark.req("A13", "D22")
def test_a_topic_is_created_listed_described_altered_and_deleted(java_tools: JavaTools, topic: str) -> None:
    said = create(java_tools, topic, "--partitions", "2", "--config", "retention.ms=3600000")
    assert said == topic
    assert topic in java_tools.topics("--list").split()

    described = java_tools.topics("--describe", "--topic", topic)
    assert re.search(rf"Topic: {topic}\tTopicId: \S{{22}}\tPartitionCount: 2\tReplicationFactor: 1", described)
    assert "retention.ms=3600000" in described
    assert re.search(r"Partition: 1\tLeader: 1\tReplicas: 1\tIsr: 1", described)

    java_tools.topics("--alter", "--topic", topic, "--partitions", "5")
    assert "PartitionCount: 5" in java_tools.topics("--describe", "--topic", topic)
    assert "InvalidPartitionsException" in java_tools.topics(
        "--alter", "--topic", topic, "--partitions", "3", check=False
    )

    java_tools.topics("--delete", "--topic", topic)
    assert topic not in java_tools.topics("--list").split()


def test_a_topic_that_cannot_be_is_refused(java_tools: JavaTools, topic: str) -> None:
    create(java_tools, topic)

    def refused(*arguments: str) -> str:
        return java_tools.topics("--create", *arguments, check=False)

    assert "TopicExistsException" in refused("--topic", topic)
    assert "InvalidTopicException" in refused("--topic", "bad name")
    assert "InvalidReplicationFactorException" in refused("--topic", "two-replicas", "--replication-factor", "2")
    java_tools.topics("--create", "--topic", topic, "--if-not-exists")


def test_settings_are_described_altered_and_deleted(java_tools: JavaTools, topic: str) -> None:
    create(java_tools, topic)
    entity = ("--entity-type", "topics", "--entity-name", topic)

    wanted = "retention.ms=1000,cleanup.policy=[compact,delete]"
    changed = java_tools.configs(*entity, "--alter", "--add-config", wanted)
    assert f"Completed updating config for topic {topic}." in changed
    described = java_tools.configs(*entity, "--describe")
    assert "retention.ms=1000" in described
    assert "cleanup.policy=compact,delete" in described

    java_tools.configs(*entity, "--alter", "--delete-config", "retention.ms")
    assert "retention.ms=1000" not in java_tools.configs(*entity, "--describe")
    everything = java_tools.configs(*entity, "--describe", "--all")
    assert "retention.ms=604800000" in everything
    assert "segment.bytes=1073741824" in everything
    assert "InvalidConfigurationException" in java_tools.configs(
        *entity, "--alter", "--add-config", "retention.ms=soon", check=False
    )


def test_settings_of_the_broker_are_described(java_tools: JavaTools) -> None:
    described = java_tools.configs("--entity-type", "brokers", "--entity-name", "1", "--describe", "--all")

    assert "node.id=1" in described
    assert "log.retention.hours=168" in described


@pytest.mark.req("A3", "A17", "A19")
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_100_000_records_come_back_unchanged_over_restarts(
    java_tools: JavaTools, broker: ServerProcess, topic: str, compression: str
) -> None:
    create(java_tools, topic)

    produce(broker.bootstrap_servers, topic, RECORDS[:50_000], compression=compression)
    broker.restart()
    produce(broker.bootstrap_servers, topic, RECORDS[50_000:], compression=compression)
    broker.restart()

    assert timeless(consume(broker.bootstrap_servers, topic, len(RECORDS))) == timeless(RECORDS)


@pytest.mark.req("E1", "E2", "E3")
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_the_producer_performance_tool_sends_all_its_records(java_tools: JavaTools, topic: str, acks: str) -> None:
    create(java_tools, topic)

    printed = java_tools.producer_performance(
        *("--topic", topic, "--num-records", "100000", "--record-size", "1000", "--throughput", "-1"),
        *("--command-property", f"acks={acks}"),
    )

    assert re.search(r"100000 records sent, [\d.]+ records/sec \([\d.]+ MB/sec\)", printed)
    assert java_tools.get_offsets("--topic", topic).strip() == f"{topic}:0:100000"


@pytest.mark.req("E3", "J1")
def test_the_verifiable_producer_is_told_every_offset(java_tools: JavaTools, topic: str) -> None:
    create(java_tools, topic)

    printed = java_tools.verifiable_producer("--topic", topic, "--max-messages", "1000", "--acks", "-1")

    events = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    offsets = [event["offset"] for event in events if event["name"] == "producer_send_success"]
    assert offsets == list(range(1_000))


@pytest.mark.req("B6", "K12")
def test_offsets_are_listed_earliest_latest_by_time_and_of_the_youngest_record(
    java_tools: JavaTools, broker: ServerProcess, topic: str
) -> None:
    create(java_tools, topic, "--partitions", "2")
    confluent_driver.produce(broker.bootstrap_servers, topic, RECORDS[:1_000], partition=1)

    def listed(time: str) -> list[str]:
        return sorted(java_tools.get_offsets("--topic", topic, "--time", time).split())

    assert listed("earliest") == [f"{topic}:0:0", f"{topic}:1:0"]
    assert listed("latest") == [f"{topic}:0:0", f"{topic}:1:1000"]
    assert listed("max-timestamp") == [f"{topic}:1:999"]
    assert listed(str(FIRST_TIMESTAMP_MS + 321)) == [f"{topic}:1:321"]


@pytest.mark.req("K6", "K7")
def test_a_consumer_reads_from_any_offset(java_tools: JavaTools, broker: ServerProcess, topic: str) -> None:
    create(java_tools, topic)
    confluent_driver.produce(broker.bootstrap_servers, topic, RECORDS[:10_000])

    assert consume(broker.bootstrap_servers, topic, 1_000, offset=9_000) == RECORDS[9_000:10_000]


def test_deleted_records_are_gone(java_tools: JavaTools, broker: ServerProcess, topic: str, tmp_path: Path) -> None:
    create(java_tools, topic)
    confluent_driver.produce(broker.bootstrap_servers, topic, RECORDS[:1_000])
    wanted = {"partitions": [{"topic": topic, "partition": 0, "offset": 400}], "version": 1}
    wanted_file = tmp_path / "delete.json"
    wanted_file.write_text(json.dumps(wanted))

    said = java_tools.delete_records("--offset-json-file", str(wanted_file))

    assert f"partition: {topic}-0\tlow_watermark: 400" in said
    assert java_tools.get_offsets("--topic", topic, "--time", "earliest").strip() == f"{topic}:0:400"


def test_log_folders_and_the_cluster_describe_themselves(
    java_tools: JavaTools, broker: ServerProcess, topic: str
) -> None:
    create(java_tools, topic)
    confluent_driver.produce(broker.bootstrap_servers, topic, RECORDS[:1_000])

    printed = java_tools.log_dirs("--describe", "--topic-list", topic)
    (folder,) = json.loads(printed[printed.index("{") :])["brokers"][0]["logDirs"]
    log_file = broker.folder / "data" / f"{topic}-0" / f"{0:020d}.log"
    assert folder["partitions"][0]["partition"] == f"{topic}-0"
    assert folder["partitions"][0]["size"] == log_file.stat().st_size
    assert re.search(r"Cluster ID: \S{22}", java_tools.cluster_id())
    assert re.search(r"ApiVersions\(18\): 0 to 4", java_tools.api_versions())


@pytest.mark.req("B1", "B3", "B4", "B5", "B6", "B18")
def test_the_files_on_disk_are_read_by_the_dump_tool(java_tools: JavaTools, broker: ServerProcess, topic: str) -> None:
    create(java_tools, topic, "--config", "segment.bytes=1048576")
    confluent_driver.produce(broker.bootstrap_servers, topic, any_records(20_000), idempotent=True)
    confluent_driver.produce(broker.bootstrap_servers, topic, any_records(5_000), compression="lz4")

    broker.stop()
    folder = broker.folder / "data" / f"{topic}-0"
    segments = sorted(folder.glob("*.log"))
    try:
        assert segments[0].name == "00000000000000000000.log"
        assert len(segments) > 1
        dumped = dump_log_segments(*segments, arguments=("--deep-iteration",))
        indexes = dump_log_segments(
            *sorted(folder.glob("*.index")), *sorted(folder.glob("*.timeindex")), arguments=("--verify-index-only",)
        )
    finally:
        broker.start()

    assert [int(number) for number in re.findall(r"^\| offset: (\d+) ", dumped, re.MULTILINE)] == list(range(25_000))
    assert "isvalid: false" not in dumped
    assert "compresscodec: lz4" in dumped
    for complaint in ("Mismatches", "Found", "Exception", "error"):
        assert complaint not in indexes, indexes


def test_a_record_is_on_its_way_for_milliseconds(java_tools: JavaTools, topic: str) -> None:
    create(java_tools, topic)

    printed = java_tools.end_to_end_latency(
        "--topic", topic, "--num-records", "500", "--record-size", "100", "--producer-acks", "1"
    )

    average_ms = float(re.findall(r"Avg latency: ([\d.]+) ms", printed)[0])
    assert average_ms < 100


def test_an_unknown_topic_is_created_on_first_use_when_the_broker_allows_it(
    java_tools: JavaTools, broker: ServerProcess, topic: str
) -> None:
    produce(broker.bootstrap_servers, topic, RECORDS[:10])

    assert timeless(consume(broker.bootstrap_servers, topic, 10)) == timeless(RECORDS[:10])


def test_an_unknown_topic_is_refused_when_the_broker_does_not_create_topics(
    start_broker: Callable[..., ServerProcess], topic: str
) -> None:
    strict = start_broker({"auto.create.topics.enable": "false"})

    said = run_tool(
        *("org.apache.kafka.tools.ConsoleProducer", "--bootstrap-server", strict.bootstrap_servers),
        *("--topic", topic, "--command-property", "max.block.ms=2000"),
        stdin="lost\n",
        check=False,
    )

    assert "not present in metadata" in said
    assert topic not in JavaTools(strict.bootstrap_servers).topics("--list").split()
