"""Compaction as clients see it: many versions of few keys become one, while librdkafka writes and reads."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from harness.java import dump_log_segments
from harness.server import ServerProcess, StartBroker
from harness.waiting import wait_until

QUICK = {
    "log.cleaner.backoff.ms": "200",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.segment.bytes": "1048576",
    "log.segment.delete.delay.ms": "100",
}
SECONDS_MAX = 60
# Far below what was produced, and above one segment.
BYTES_MAX = {"none": 60_000, "lz4": 24_000}


def _create(broker: ServerProcess, topic: str, **settings: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for future in admin.create_topics([NewTopic(topic, 1, 1, config=settings)]).values():
        future.result(20)


def _consume(
    broker: ServerProcess, topic: str, isolation: str = "read_committed"
) -> list[tuple[int, bytes, bytes | None]]:
    """Everything from the first record to the end of the topic."""
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": f"reads-{topic}", "isolation.level": isolation}
    )
    partition = TopicPartition(topic, 0, 0)
    consumer.assign([partition])
    _, end = consumer.get_watermark_offsets(partition, timeout=20)
    found: list[tuple[int, bytes, bytes | None]] = []
    deadline = time.monotonic() + SECONDS_MAX
    while time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.append((message.offset(), message.key() or b"", message.value()))
        if message is None and consumer.position([partition])[0].offset >= end:
            break
    consumer.close()
    return found


def _wait_for_compaction(folder: Path, *, bytes_max: int) -> None:
    def is_compacted() -> bool:
        try:
            return sum(path.stat().st_size for path in folder.glob("*.log")) <= bytes_max
        except FileNotFoundError:
            return False  # A segment was replaced while we looked.

    wait_until(is_compacted, SECONDS_MAX)


@pytest.mark.req("P3")
@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_a_compacted_topic_keeps_the_newest_version_of_each_key(start_broker: StartBroker, compression: str) -> None:
    broker = start_broker(QUICK)
    topic = f"versions-{compression}"
    settings = {"cleanup.policy": "compact", "internal.segment.bytes": "20000", "min.cleanable.dirty.ratio": "0.01"}
    _create(broker, topic, **settings)
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True, "compression.type": compression}
    )
    expected: dict[bytes, bytes] = {}
    for version in range(300):
        for key in (b"key-%d" % number for number in range(20)):
            expected[key] = b"%d-" % version + b"x" * 50
            producer.produce(topic, expected[key], key)
        if version % 10 == 0:
            producer.flush(20)
    assert producer.flush(20) == 0
    folder = broker.folder / "data" / f"{topic}-0"
    _wait_for_compaction(folder, bytes_max=BYTES_MAX[compression])
    records = _consume(broker, topic)
    assert {key: value for _, key, value in records} == expected
    assert [offset for offset, _, _ in records] == sorted({offset for offset, _, _ in records})
    assert records[-1][0] == 300 * 20 - 1
    broker.kill()
    logs = sorted(folder.glob("*.log"))
    dumped = dump_log_segments(*logs, arguments=("--deep-iteration",))
    assert "isvalid: true" in dumped
    assert "isvalid: false" not in dumped
    indexes = [path.with_suffix(suffix) for path in logs[:-1] for suffix in (".index", ".timeindex")]
    assert "Found" not in dump_log_segments(*indexes, arguments=("--index-sanity-check",))
    broker.start()
    assert {key: value for _, key, value in _consume(broker, topic)} == expected


@pytest.mark.req("P3")
def test_committed_offsets_survive_the_compaction_of_their_topic(start_broker: StartBroker) -> None:
    broker = start_broker(QUICK)
    _create(broker, "read-often")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "commits-a-lot"})
    partition = TopicPartition("read-often", 0)
    consumer.assign([partition])
    consumer.commit(offsets=[TopicPartition("read-often", 0, 0)], asynchronous=False)
    changes = {"internal.segment.bytes": "10000", "min.cleanable.dirty.ratio": "0.01"}
    entries = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in changes.items()]
    resource = ConfigResource(ResourceType.TOPIC, "__consumer_offsets", incremental_configs=entries)
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(20)
    for offset in range(1, 1001):
        consumer.commit(offsets=[TopicPartition("read-often", 0, offset)], asynchronous=False)
    folder = broker.folder / "data" / "__consumer_offsets-0"
    _wait_for_compaction(folder, bytes_max=25_000)
    broker.kill()
    broker.start()
    assert consumer.committed([partition], timeout=30)[0].offset == 1000
    consumer.close()
