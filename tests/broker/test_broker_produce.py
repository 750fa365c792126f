"""Produce on a running broker: what is refused and how, acks, settings that change batches, syncs first."""

from __future__ import annotations

import time

import pytest

import tidelog
from harness.raw_client import (
    RawClient,
    batch_of,
    create_topic,
    fetch_request,
    produce,
    produce_request,
)
from tidelog.model.errors import ErrorCode
from tidelog.wire.batch import read_header
from tidelog.wire.compression import Compression
from tidelog.wire.messages.fetch import FetchResponse
from tidelog.wire.messages.produce import PartitionProduceResponse, ProduceResponse
from tidelog.wire.records import Record, build_batch, read_records


def refusal(
    client: RawClient, topic: str, batch: bytes | None, version: int = 12, **where: int
) -> PartitionProduceResponse:
    response = client.ask(produce_request(topic, batch, **where), ProduceResponse, version)
    (answer,) = response.responses[0].partition_responses
    return answer


def stored(client: RawClient, topic: str) -> memoryview:
    response = client.ask(fetch_request(topic, {0: 0}), FetchResponse, 12)
    data = response.responses[0].partitions[0].records
    assert data is not None
    return memoryview(data)


@pytest.mark.req("A15", "A17")
def test_offsets_are_contiguous_from_zero(client: RawClient, topic: str) -> None:
    create_topic(client, topic)
    assert [produce(client, topic, b"a", b"b", b"c") for _ in range(4)] == [0, 3, 6, 9]


@pytest.mark.req("A14")
def test_what_is_stored_is_what_was_sent_but_for_offset_and_epoch(client: RawClient, topic: str) -> None:
    create_topic(client, topic)
    sent = batch_of(b"as it is")
    refusal(client, topic, sent)
    assert bytes(stored(client, topic)[16:]) == sent[16:]


@pytest.mark.parametrize("acks", [0, 1, -1])
@pytest.mark.req("E1", "E2", "E3")
def test_every_kind_of_acks_appends(client: RawClient, topic: str, acks: int) -> None:
    create_topic(client, topic)
    if acks:
        produce(client, topic, b"v", acks=acks)
    else:
        client.send(produce_request(topic, batch_of(b"v"), acks=0), 12)
    # A client that pipelines sees its own writes, even those that are not answered.
    assert [record.value for record in read_records(stored(client, topic))] == [b"v"]


@pytest.mark.req("E1")
def test_acks_0_that_fails_closes_the_connection(client: RawClient, topic: str) -> None:
    client.send(produce_request("no-such-topic", batch_of(b"v"), acks=0), 12)
    assert client.is_closed_by_peer()


def test_other_values_of_acks_are_refused(client: RawClient, topic: str) -> None:
    create_topic(client, topic)
    assert refusal(client, topic, batch_of(b"v"), acks=2).error_code == ErrorCode.INVALID_REQUIRED_ACKS


def test_a_partition_or_topic_that_does_not_exist_is_named_so(client: RawClient, topic: str) -> None:
    create_topic(client, topic)
    assert refusal(client, topic, batch_of(b"v"), partition=7).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert refusal(client, "never-made", batch_of(b"v")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_null_or_damaged_batch_is_refused_and_the_connection_stays(client: RawClient, topic: str) -> None:
    create_topic(client, topic)
    good = batch_of(b"v")
    damaged = good[:-1] + bytes([good[-1] ^ 1])
    assert refusal(client, topic, None).error_code == ErrorCode.INVALID_RECORD
    assert refusal(client, topic, damaged).error_code == ErrorCode.CORRUPT_MESSAGE
    assert produce(client, topic, b"still here") == 0


def test_a_batch_from_too_far_in_the_future_is_refused(client: RawClient, topic: str) -> None:
    create_topic(client, topic)
    later = int(time.time() * 1000) + 2 * 3_600_000
    assert refusal(client, topic, batch_of(b"v", timestamp_ms=later)).error_code == ErrorCode.INVALID_TIMESTAMP


def test_an_old_batch_is_refused_where_the_topic_says_so(client: RawClient, topic: str) -> None:
    create_topic(client, topic, message_timestamp_before_max_ms="60000")
    earlier = int(time.time() * 1000) - 3_600_000
    assert refusal(client, topic, batch_of(b"v", timestamp_ms=earlier)).error_code == ErrorCode.INVALID_TIMESTAMP
    assert produce(client, topic, b"now") == 0


def test_a_batch_over_max_message_bytes_is_refused(client: RawClient, topic: str) -> None:
    create_topic(client, topic, max_message_bytes="1000")
    assert refusal(client, topic, batch_of(b"v" * 2_000)).error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_log_append_time_stamps_the_brokers_clock(client: RawClient, topic: str) -> None:
    create_topic(client, topic, message_timestamp_type="LogAppendTime")
    answer = refusal(client, topic, batch_of(b"v", timestamp_ms=1_000))
    (record,) = read_records(stored(client, topic))
    assert answer.error_code == 0
    assert record.timestamp == answer.log_append_time_ms
    assert abs(record.timestamp - time.time() * 1000) < 60_000


def test_a_topic_may_choose_its_own_compression(client: RawClient, topic: str) -> None:
    create_topic(client, topic, compression_type="zstd")
    produce(client, topic, b"to be compressed" * 100)
    assert read_header(stored(client, topic)).compression == Compression.ZSTD
    assert read_records(stored(client, topic))[0].value == b"to be compressed" * 100


def test_a_compacted_topic_refuses_records_without_a_key(client: RawClient, topic: str) -> None:
    create_topic(client, topic, cleanup_policy="compact")
    assert refusal(client, topic, batch_of(b"no key")).error_code == ErrorCode.INVALID_RECORD
    keyed = build_batch([Record(0, int(time.time() * 1000), b"k", b"v")])
    assert refusal(client, topic, keyed).error_code == 0


def test_zstd_needs_a_client_that_knows_it(client: RawClient, topic: str) -> None:
    create_topic(client, topic)
    batch = build_batch([Record(0, int(time.time() * 1000), None, b"v")], compression=Compression.ZSTD)
    assert refusal(client, topic, batch, version=6).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert refusal(client, topic, batch, version=7).error_code == 0


@pytest.mark.req("C5")
def test_flush_messages_1_acknowledges_what_is_on_disk(embedded: tidelog.Broker, client: RawClient, topic: str) -> None:
    create_topic(client, topic, flush_messages="1")
    clients = [RawClient(embedded.bootstrap_servers) for _ in range(20)]
    for other in clients:
        other.send(produce_request(topic, batch_of(b"durable")), 12)
    offsets = [other.receive(ProduceResponse, 12).responses[0].partition_responses[0].base_offset for other in clients]
    assert sorted(offsets) == list(range(20))
    assert len(read_records(stored(client, topic))) == 1
    for other in clients:
        other.socket.close()


@pytest.mark.req("J4")
def test_a_batch_sent_twice_is_stored_once_and_answered_alike(client: RawClient, topic: str) -> None:
    create_topic(client, topic)
    record = Record(0, int(time.time() * 1000), None, b"once")
    for sequence in range(6):
        batch = build_batch([record], producer_id=7, producer_epoch=0, base_sequence=sequence)
        assert refusal(client, topic, batch).base_offset == sequence
    for sequence in range(1, 6):
        again = build_batch([record], producer_id=7, producer_epoch=0, base_sequence=sequence)
        assert refusal(client, topic, again).base_offset == sequence
    gap = build_batch([record], producer_id=7, producer_epoch=0, base_sequence=9)
    assert refusal(client, topic, gap).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
