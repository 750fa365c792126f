"""Batches as bytes against a running broker: ours in every compression are stored, bad ones get their error code.

The same bytes go to Apache Kafka, so that what the unit tests claim about it stays true.
"""

from __future__ import annotations

import socket
import struct
import time

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from harness.bad_batches import MAX_MESSAGE_BYTES, NOW, REFUSED
from harness.server import HOST, ServerProcess
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import Offset
from tidelog.wire.compression import Compression
from tidelog.wire.frames import decode_response, encode_request
from tidelog.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tidelog.wire.records import Record, build_batch, read_records

SECONDS_MAX = 20
PRODUCE_VERSION = 8
ACKS_ALL = -1
SMALL = "small.batches"
LARGE = "large.batches"
COMPACTED = "compacted.batches"
RECENT = "recent.batches"
HOUR_MS = 3_600_000


@pytest.fixture(scope="module", params=["apache_kafka", "broker"])
def server(request: pytest.FixtureRequest) -> ServerProcess:
    """Apache Kafka, then ours, each with a topic for small and one for large batches."""
    found: ServerProcess = request.getfixturevalue(request.param)
    admin = AdminClient({"bootstrap.servers": found.bootstrap_servers})
    wanted = [
        NewTopic(SMALL, 1, 1, config={"max.message.bytes": str(MAX_MESSAGE_BYTES)}),
        NewTopic(LARGE, 1, 1),
        NewTopic(COMPACTED, 1, 1, config={"cleanup.policy": "compact,delete"}),
        NewTopic(RECENT, 1, 1, config={"message.timestamp.before.max.ms": str(HOUR_MS)}),
    ]
    for future in admin.create_topics(wanted).values():
        future.result(SECONDS_MAX)
    # Kafka answers when the controller has created a topic; its broker leads it a moment later.
    deadline = time.monotonic() + SECONDS_MAX
    now = int(time.time() * 1000)
    valid = build_batch([Record(0, now, b"key", b"value")])
    while any(produce(found, topic, valid)[0] is not ErrorCode.NONE for topic in (SMALL, LARGE, COMPACTED, RECENT)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def produce(server: ServerProcess, topic: str, batch: bytes) -> tuple[ErrorCode, int]:
    """Send a batch as it is; gives the error code and the offset it got."""
    answered = answer_to(server, topic, batch)
    return ErrorCode(answered.error_code), answered.base_offset


def answer_to(server: ServerProcess, topic: str, batch: bytes) -> PartitionProduceResponse:
    partition = PartitionProduceData(index=0, records=batch)
    request = ProduceRequest(
        acks=ACKS_ALL, timeout_ms=10_000, topic_data=[TopicProduceData(name=topic, partition_data=[partition])]
    )
    with socket.create_connection((HOST, server.port), timeout=SECONDS_MAX) as connection:
        connection.sendall(encode_request(request, PRODUCE_VERSION, 1, "batches"))
        answer = connection.makefile("rb")
        (length,) = struct.unpack(">i", answer.read(4))
        _, response = decode_response(ProduceResponse, PRODUCE_VERSION, memoryview(answer.read(length)))
    return response.responses[0].partition_responses[0]


@pytest.mark.parametrize("case", REFUSED)
def test_a_bad_batch_is_refused_by_a_running_broker(server: ServerProcess, case: str) -> None:
    bad = REFUSED[case]
    expected = bad.code
    if server.launch.name == "apache-kafka" and bad.apache_code is not None:
        expected = bad.apache_code
    code, _ = produce(server, SMALL, bytes(bad.make()))
    if server.launch.name == "apache-kafka" and code is ErrorCode.UNKNOWN_SERVER_ERROR:
        return  # It looks behind the end of a batch that is too short, and says so when it finds nothing there.
    assert code is expected


@pytest.mark.parametrize("codec", list(Compression))
def test_our_batches_come_back_in_every_compression(server: ServerProcess, codec: Compression) -> None:
    records = [
        Record(0, NOW, b"key", b"value"),
        Record(0, NOW - 250, None, b"no key"),
        Record(0, NOW + 70, b"no value", None, (("name", b"content"), ("null", None))),
        Record(0, NOW, b"long", b"0123456789" * 20_000),
    ]
    code, offset = produce(server, LARGE, build_batch(records, compression=codec))
    assert code is ErrorCode.NONE
    assert consume(server, offset, len(records)) == read_records(build_batch(records, base_offset=Offset(offset)))


def consume(server: ServerProcess, offset: int, count: int) -> list[Record]:
    """Read with librdkafka, which decompresses by itself and checks the CRC."""
    consumer = Consumer(
        {
            "bootstrap.servers": server.bootstrap_servers,
            "group.id": "none",
            "check.crcs": True,
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.assign([TopicPartition(LARGE, 0, offset)])
        messages = [consumer.poll(SECONDS_MAX) for _ in range(count)]
    finally:
        consumer.close()
    assert all(message is not None and message.error() is None for message in messages), messages
    return [
        Record(
            message.offset(),
            message.timestamp()[1],
            message.key(),
            message.value(),
            tuple((name, content) for name, content in message.headers() or ()),
        )
        for message in messages
    ]


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.ZSTD])
def test_records_without_key_are_named_one_by_one_where_a_topic_is_compacted(
    server: ServerProcess, codec: Compression
) -> None:
    keys = [b"a", None, b"b", None, None, None]
    now = int(time.time() * 1000)
    batch = build_batch([Record(index, now, key, b"value") for index, key in enumerate(keys)], compression=codec)

    answer = answer_to(server, COMPACTED, batch)

    reason = f"Compacted topic cannot accept message without key in topic partition {COMPACTED}-0"
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [(each.batch_index, each.batch_index_error_message) for each in answer.record_errors] == [
        (index, reason) for index in (1, 3, 4, 5)
    ]
    named = ", ".join(f"RecordError(batchIndex={index}, message='{reason}')" for index in (1, 3, 4))
    assert answer.error_message == (
        "One or more records have been rejected due to 4 record errors in total, and only showing the first three"
        f" errors at most: [{named}]"
    )


@pytest.mark.parametrize("hours", [-3, 3])
def test_records_too_far_from_the_clock_are_named_one_by_one(server: ServerProcess, hours: int) -> None:
    now = int(time.time() * 1000)
    far = now + hours * HOUR_MS
    batch = build_batch([Record(index, at, b"key", b"value") for index, at in enumerate([now, far, now, far])])

    answer = answer_to(server, RECENT, batch)

    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert answer.error_message == "One or more records have been rejected due to invalid timestamp"
    assert [each.batch_index for each in answer.record_errors] == [1, 3]
    for each in answer.record_errors:
        reason = f"Timestamp {far} of message with offset {each.batch_index} is out of range."
        assert (each.batch_index_error_message or "").startswith(f"{reason} The timestamp should be within [")
