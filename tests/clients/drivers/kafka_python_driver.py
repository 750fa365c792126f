"""kafka-python as the tests use it: send records to one partition, read them back by assignment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from drivers.corpus import Record
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

COMPRESSIONS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
SECONDS_MAX: Final = 60


def producer(bootstrap_servers: str, **options: Any) -> KafkaProducer:
    defaults = {"linger_ms": 5, "batch_size": 65_536, "delivery_timeout_ms": SECONDS_MAX * 1000}
    return KafkaProducer(bootstrap_servers=bootstrap_servers, **{**defaults, **options})


def consumer(bootstrap_servers: str, **options: Any) -> KafkaConsumer:
    defaults = {"group_id": None, "auto_offset_reset": "none", "enable_auto_commit": False, "max_poll_records": 10_000}
    return KafkaConsumer(bootstrap_servers=bootstrap_servers, **{**defaults, **options})


def produce(
    bootstrap_servers: str,
    topic: str,
    records: Sequence[Record],
    *,
    partition: int = 0,
    compression: str = "none",
    acks: int | str = "all",
    idempotent: bool = False,
) -> None:
    client = producer(
        bootstrap_servers,
        compression_type=None if compression == "none" else compression,
        acks=acks,
        enable_idempotence=idempotent,
    )
    futures = [
        client.send(
            topic,
            value=record.value,
            key=record.key,
            headers=list(record.headers),
            partition=partition,
            timestamp_ms=record.timestamp_ms,
        )
        for record in records
    ]
    client.flush(SECONDS_MAX)
    for future in futures:
        future.get(SECONDS_MAX)
    client.close()


def consume(bootstrap_servers: str, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[Record]:
    """Read `count` records from an offset on, and check that their offsets have no holes."""
    client = consumer(bootstrap_servers)
    place = TopicPartition(topic, partition)
    client.assign([place])
    client.seek(place, offset)
    records: list[Record] = []
    try:
        while len(records) < count:
            messages = client.poll(SECONDS_MAX * 1000, max_records=count - len(records)).get(place, [])
            assert messages, f"{topic}: {len(records)} of {count} records came, then nothing"
            for message in messages:
                records.append(to_record(message))
                assert message.offset == offset + len(records) - 1
    finally:
        client.close()
    return records


def to_record(message: Any) -> Record:
    return Record(message.key, message.value, tuple(map(tuple, message.headers)), message.timestamp)
