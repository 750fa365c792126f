"""confluent-kafka (librdkafka) as the tests use it: send records to one partition, read them back by assignment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from drivers.corpus import Record

COMPRESSIONS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
SECONDS_MAX: Final = 60


def producer(bootstrap_servers: str, **options: object) -> Producer:
    defaults = {"queue.buffering.max.messages": 1_000_000, "linger.ms": 5, "message.timeout.ms": SECONDS_MAX * 1000}
    return Producer({"bootstrap.servers": bootstrap_servers, **defaults, **_dotted(options)})


def consumer(bootstrap_servers: str, **options: object) -> Consumer:
    """A consumer for `assign`: librdkafka asks for a group id, but nothing is ever committed to it."""
    defaults = {"group.id": "unused", "enable.auto.commit": False, "auto.offset.reset": "error"}
    return Consumer({"bootstrap.servers": bootstrap_servers, **defaults, **_dotted(options)})


def produce(
    bootstrap_servers: str,
    topic: str,
    records: Sequence[Record],
    *,
    partition: int = 0,
    compression: str = "none",
    acks: str = "all",
    idempotent: bool = False,
) -> None:
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failures.append(error)

    client = producer(bootstrap_servers, compression_type=compression, acks=acks, enable_idempotence=idempotent)
    for number, record in enumerate(records):
        client.produce(
            topic,
            record.value,
            record.key,
            partition,
            on_delivery=delivered,
            timestamp=record.timestamp_ms,
            headers=list(record.headers),
        )
        if number % 1000 == 0:
            client.poll(0)
    left = client.flush(SECONDS_MAX)
    assert failures == [], failures[0]
    assert left == 0, f"{left} records were neither delivered nor refused"


def consume(
    bootstrap_servers: str, topic: str, count: int, *, partition: int = 0, offset: int = 0, isolation: str | None = None
) -> list[Record]:
    """Read `count` records from an offset on, and check that their offsets have no holes."""
    options = {"isolation_level": isolation} if isolation else {}
    client = consumer(bootstrap_servers, **options)
    client.assign([TopicPartition(topic, partition, offset)])
    records: list[Record] = []
    try:
        while len(records) < count:
            messages = client.consume(min(10_000, count - len(records)), timeout=SECONDS_MAX)
            assert messages, f"{topic}: {len(records)} of {count} records came, then nothing"
            for message in messages:
                records.append(to_record(message))
                assert message.offset() == offset + len(records) - 1
    finally:
        client.close()
    return records


def to_record(message: Message) -> Record:
    assert message.error() is None, message.error()
    headers = tuple(message.headers() or ())
    return Record(message.key(), message.value(), headers, message.timestamp()[1])


def _dotted(options: dict[str, object]) -> dict[str, object]:
    return {name.replace("_", "."): value for name, value in options.items()}
