"""aiokafka as the tests use it: send records to one partition, read them back by assignment."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from drivers.corpus import Record

COMPRESSIONS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
SECONDS_MAX: Final = 60


def producer(bootstrap_servers: str, **options: Any) -> AIOKafkaProducer:
    defaults = {"linger_ms": 5, "max_batch_size": 65_536}
    return AIOKafkaProducer(bootstrap_servers=bootstrap_servers, **{**defaults, **options})


def consumer(bootstrap_servers: str, **options: Any) -> AIOKafkaConsumer:
    defaults = {"auto_offset_reset": "none", "enable_auto_commit": False}
    return AIOKafkaConsumer(bootstrap_servers=bootstrap_servers, **{**defaults, **options})


async def send_all(
    client: AIOKafkaProducer, topic: str, records: Sequence[Record], *, partition: int = 0
) -> list[asyncio.Future[Any]]:
    """Hand all records to the producer and return their futures; the producer's own buffer slows us down."""
    return [
        await client.send(
            topic,
            value=record.value,
            key=record.key,
            headers=list(record.headers),
            partition=partition,
            timestamp_ms=record.timestamp_ms,
        )
        for record in records
    ]


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
    async def run() -> None:
        client = producer(
            bootstrap_servers,
            compression_type=None if compression == "none" else compression,
            acks=acks,
            enable_idempotence=idempotent,
        )
        async with client:
            futures = await send_all(client, topic, records, partition=partition)
            await asyncio.wait_for(asyncio.gather(*futures), SECONDS_MAX)

    asyncio.run(run())


def consume(bootstrap_servers: str, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[Record]:
    """Read `count` records from an offset on, and check that their offsets have no holes."""

    async def run() -> list[Record]:
        place = TopicPartition(topic, partition)
        records: list[Record] = []
        async with consumer(bootstrap_servers) as client:
            client.assign([place])
            client.seek(place, offset)
            while len(records) < count:
                many = await client.getmany(timeout_ms=SECONDS_MAX * 1000, max_records=count - len(records))
                messages = many.get(place, [])
                assert messages, f"{topic}: {len(records)} of {count} records came, then nothing"
                for message in messages:
                    records.append(to_record(message))
                    assert message.offset == offset + len(records) - 1
        return records

    return asyncio.run(run())


def to_record(message: Any) -> Record:
    return Record(message.key, message.value, tuple(map(tuple, message.headers)), message.timestamp)
