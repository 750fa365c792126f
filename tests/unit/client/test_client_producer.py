"""Both fronts of the producer against a real broker in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tidelog import AsyncProducer, Broker, Producer, RecordMetadata
from tidelog.client.core.pending import EncodedRecords
from tidelog.client.core.record_encoder import encode_record
from tidelog.client.errors import ClientClosed, ClientError, InvalidOption, Rejected, SerializationFailed

TIMEOUT_S = 10.0


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with Broker() as broker:
        yield broker.bootstrap_servers


def test_a_delivery_tells_where_its_record_is(servers: str) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        deliveries = [producer.send("places", b"%d" % number, timestamp_ms=1000 + number) for number in range(300)]
        found = [delivery.result(TIMEOUT_S) for delivery in deliveries]
    assert [metadata.offset for metadata in found] == list(range(300))
    assert [metadata.timestamp_ms for metadata in found] == list(range(1000, 1300))
    assert all(delivery.done() and delivery.exception() is None for delivery in deliveries)


def test_callbacks_get_metadata_or_an_error_and_one_that_raises_hinders_nobody(servers: str) -> None:
    told: list[tuple[RecordMetadata | None, ClientError | None]] = []

    def broken(metadata: RecordMetadata | None, error: ClientError | None) -> None:
        raise RuntimeError("a callback of the caller")

    with Producer(bootstrap_servers=servers) as producer:
        producer.send("callbacks", b"1", on_delivery=broken)
        delivery = producer.send("callbacks", b"2", on_delivery=lambda *both: told.append(both))
        delivery.result(TIMEOUT_S)
        delivery.add_done_callback(lambda *both: told.append(both))
    assert [metadata.offset if metadata else None for metadata, _ in told] == [1, 1]


def test_leaving_the_block_sends_what_is_left(servers: str) -> None:
    with Producer(bootstrap_servers=servers, linger_ms=60_000) as producer:
        deliveries = [producer.send("left", b"x") for _ in range(10)]
        assert not any(delivery.done() for delivery in deliveries)
    assert [delivery.result(0).offset for delivery in deliveries] == list(range(10))
    with pytest.raises(ClientClosed):
        producer.send("left", b"late")


def test_encoded_batches_and_single_records_keep_their_order(servers: str) -> None:
    body = b"".join(encode_record(index, 0, None, b"encoded", ()) for index in range(3))
    with Producer(bootstrap_servers=servers) as producer:
        first = producer.send("encoded", b"1", partition=0)
        batch = producer.send_encoded("encoded", 0, EncodedRecords(body, 3, 5, 5))
        last = producer.send("encoded", b"5", partition=0)
    assert [each.result(0).offset for each in (first, batch, last)] == [0, 1, 4]


def test_what_cannot_be_sent_is_refused_at_once(servers: str) -> None:
    with Producer(bootstrap_servers=servers, partitioner="explicit", max_block_ms=500) as producer:
        with pytest.raises(SerializationFailed, match="value is str"):
            producer.send("refused", "text")
        with pytest.raises(InvalidOption, match="names no partition"):
            producer.send("refused", b"x")
        with pytest.raises(Rejected, match="no partition 7"):
            producer.send("refused", b"x", partition=7)
        with pytest.raises(Rejected, match="larger than the limit"):
            producer.send("refused", bytes(2_000_000), partition=0)
        with pytest.raises(Rejected, match="not valid"):
            producer.send("no/such/name", b"x", partition=0)


def test_the_asyncio_front_does_the_same(servers: str) -> None:
    async def use() -> list[int]:
        async with AsyncProducer({"bootstrap.servers": servers, "value.serializer": "json"}) as producer:
            first = await producer.send_and_wait("asyncio", {"a": 1})
            deliveries = [await producer.send("asyncio", number) for number in range(100)]
            offsets = [first.offset, *[(await delivery).offset for delivery in deliveries]]
            left = await producer.send("asyncio", "left")
        return [*offsets, (await left).offset]

    assert asyncio.run(use()) == list(range(102))
