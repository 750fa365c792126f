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

from harness.bad_batches import MAX_MESSAGE_BYTES, NOW, REFUSED, made_by_aiokafka
from harness.server import HOST, ServerProcess
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import Offset
from tidelog.wire.compression import Compression
from tidelog.wire.frames import decode_response, encode_request
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tidelog.wire.records import Record, build_batch, read_records

SECONDS_MAX = 20
PRODUCE_VERSION = 8
ACKS_ALL = -1
SMALL = "small.batches"
LARGE = "large.batches"


@pytest.fixture(scope="module", params=["apache_kafka", "broker"])
def server(request: pytest.FixtureRequest) -> ServerProcess:
    """Apache Kafka, then ours, each with a topic for small and one for large batches."""
    found: ServerProcess = request.getfixturevalue(request.param)
    admin = AdminClient({"bootstrap.servers": found.bootstrap_servers})
    wanted = [
        NewTopic(SMALL, 1, 1, config={"max.message.bytes": str(MAX_MESSAGE_BYTES)}),
        NewTopic(LARGE, 1, 1),
    ]
    for future in admin.create_topics(wanted).values():
        future.result(SECONDS_MAX)
    # Kafka answers when the controller has created a topic; its broker leads it a moment later.
    deadline = time.monotonic() + SECONDS_MAX
    while any(produce(found, topic, bytes(made_by_aiokafka()))[0] is not ErrorCode.NONE for topic in (SMALL, LARGE)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def produce(server: ServerProcess, topic: str, batch: bytes) -> tuple[ErrorCode, int]:
    """Send a batch as it is; gives the error code and the offset it got."""
    partition = PartitionProduceData(index=0, records=batch)
    request = ProduceRequest(
        acks=ACKS_ALL, timeout_ms=10_000, topic_data=[TopicProduceData(name=topic, partition_data=[partition])]
    )
    with socket.create_connection((HOST, server.port), timeout=SECONDS_MAX) as connection:
        connection.sendall(encode_request(request, PRODUCE_VERSION, 1, "batches"))
        answer = connection.makefile("rb")
        (length,) = struct.unpack(">i", answer.read(4))
        _, response = decode_response(ProduceResponse, PRODUCE_VERSION, memoryview(answer.read(length)))
    answered = response.responses[0].partition_responses[0]
    return ErrorCode(answered.error_code), answered.base_offset


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
