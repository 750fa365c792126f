"""A producer that repeats itself takes a shorter way through the broker. Whatever happens, it is answered the same."""

from __future__ import annotations

import time

import pytest

import tidelog
from harness.raw_client import RawClient, batch_of, create_topic, fetch_request, produce_request
from harness.raw_transactions import FIRST, SECOND, RawTransactions, Versions, last_stable_offset
from harness.waiting import wait_until
from tidelog.model.errors import ErrorCode
from tidelog.wire.batch import iter_headers
from tidelog.wire.frames import encode_request
from tidelog.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    EntityData,
    OpData,
)
from tidelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from tidelog.wire.messages.fetch import FetchResponse
from tidelog.wire.messages.produce import PartitionProduceResponse, ProduceResponse
from tidelog.wire.records import Record, build_batch

VERSION = 12


def send(client: RawClient, topic: str, batch: bytes, acks: int = 1) -> PartitionProduceResponse:
    response = client.ask(produce_request(topic, batch, acks=acks), ProduceResponse, VERSION)
    (answer,) = response.responses[0].partition_responses
    assert response.responses[0].name == topic
    return answer


@pytest.mark.parametrize("acks", [1, -1])
def test_offsets_go_on_when_requests_repeat(client: RawClient, topic: str, acks: int) -> None:
    create_topic(client, topic)
    for number in range(5):
        answer = send(client, topic, batch_of(bytes(10 * number), b"second"), acks)
        assert (answer.error_code, answer.base_offset, answer.log_start_offset) == (0, 2 * number, 0)


def test_pipelined_repeats_are_answered_in_order_with_their_own_correlation_ids(client: RawClient, topic: str) -> None:
    create_topic(client, topic)
    sent = [client.send(produce_request(topic, batch_of(b"one")), VERSION) for _ in range(50)]
    offsets = [client.receive(ProduceResponse, VERSION).responses[0].partition_responses[0].base_offset for _ in sent]
    assert offsets == list(range(50))


def test_a_bad_batch_among_repeats_gets_its_own_error(client: RawClient, topic: str) -> None:
    create_topic(client, topic)
    good = batch_of(b"value")
    corrupt = bytearray(good)
    corrupt[-1] ^= 1
    answers = [send(client, topic, batch) for batch in (good, good, bytes(corrupt), good)]
    assert [answer.error_code for answer in answers] == [0, 0, ErrorCode.CORRUPT_MESSAGE, 0]
    assert answers[2].error_message
    assert [answer.base_offset for answer in answers] == [0, 1, -1, 2]


def test_a_repeated_batch_of_an_idempotent_producer_is_written_once(client: RawClient, topic: str) -> None:
    create_topic(client, topic)
    batches = [
        build_batch([Record(0, 1000, None, b"v")], producer_id=4000, producer_epoch=0, base_sequence=sequence)
        for sequence in (0, 1, 2)
    ]
    order = [0, 1, 2, 1, 2]
    assert [send(client, topic, batches[number]).base_offset for number in order] == order


def pipelined(client: RawClient, topic: str, batches: list[bytes], partitions: int = 1) -> list[tuple[int, int]]:
    """All of them in one piece, behind a first one that shows the form; error and offset of each."""
    send(client, topic, batch_of(b"first"))
    frames = [
        encode_request(produce_request(topic, batch, number % partitions), VERSION, 1000 + number, "raw")
        for number, batch in enumerate(batches)
    ]
    client.socket.sendall(b"".join(frames))
    answers = []
    for _ in frames:
        (answer,) = client.receive(ProduceResponse, VERSION).responses[0].partition_responses
        answers.append((answer.error_code, answer.base_offset))
    return answers


def test_a_bad_batch_in_the_middle_of_a_pipeline_gets_its_own_error(client: RawClient, topic: str) -> None:
    create_topic(client, topic)
    good = batch_of(b"value")
    corrupt = bytearray(good)
    corrupt[-1] ^= 1
    assert pipelined(client, topic, [good, good, bytes(corrupt), good]) == [
        (0, 1),
        (0, 2),
        (ErrorCode.CORRUPT_MESSAGE, -1),
        (0, 3),
    ]


def test_pipelined_batches_of_an_idempotent_producer_are_written_once_and_in_sequence(
    client: RawClient, topic: str
) -> None:
    create_topic(client, topic)
    now_ms = int(time.time() * 1000)
    batches = [
        build_batch([Record(0, now_ms, None, b"v")], producer_id=4000, producer_epoch=0, base_sequence=sequence)
        for sequence in (0, 1, 1, 2, 7, 3)
    ]
    assert pipelined(client, topic, batches) == [
        (0, 1),
        (0, 2),
        (0, 2),
        (0, 3),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1),
        (0, 4),
    ]


def test_a_pipeline_goes_on_over_many_segments(client: RawClient, topic: str) -> None:
    create_topic(client, topic, segment_bytes="2000000", segment_index_bytes="100")
    batches = [batch_of(bytes(size)) for size in (10, 1000, 20_000) * 60]
    assert pipelined(client, topic, batches) == [(0, number) for number in range(1, 181)]
    offset = 0
    while offset < 181:
        (read,) = client.ask(fetch_request(topic, {0: offset}), FetchResponse, 12).responses[0].partitions
        assert read.records is not None
        for _, header in iter_headers(read.records):
            assert header.base_offset == offset
            offset = header.next_offset


def test_a_pipeline_may_go_to_several_partitions(client: RawClient, topic: str) -> None:
    create_topic(client, topic, 3)
    assert pipelined(client, topic, [batch_of(b"v")] * 9, 3) == [
        (0, number // 3 + (1 if number % 3 == 0 else 0)) for number in range(9)
    ]


def test_a_deleted_topic_is_noticed(client: RawClient, topic: str) -> None:
    topic_id = create_topic(client, topic)
    assert [send(client, topic, batch_of(b"v")).error_code for _ in range(3)] == [0, 0, 0]
    client.ask(DeleteTopicsRequest([DeleteTopicState(None, topic_id)], timeout_ms=5000), DeleteTopicsResponse)
    assert send(client, topic, batch_of(b"v")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_append_time_is_told(client: RawClient, topic: str) -> None:
    create_topic(client, topic, message_timestamp_type="LogAppendTime")
    answers = [send(client, topic, batch_of(b"v")) for _ in range(3)]
    assert all(answer.log_append_time_ms > 0 for answer in answers)


def test_a_log_that_is_synced_first_is_answered_after_its_sync(client: RawClient, topic: str) -> None:
    create_topic(client, topic, flush_messages="1")
    assert [send(client, topic, batch_of(b"v")).base_offset for _ in range(3)] == [0, 1, 2]


def test_min_insync_replicas_counts_for_repeats(client: RawClient, topic: str) -> None:
    create_topic(client, topic)
    assert [send(client, topic, batch_of(b"v"), acks=2).error_code for _ in range(3)] == [
        ErrorCode.INVALID_REQUIRED_ACKS
    ] * 3


def test_a_quota_that_is_set_later_holds_a_repeating_producer_back(topic: str) -> None:
    with tidelog.Broker() as broker, RawClient(broker.bootstrap_servers) as client:
        create_topic(client, topic)
        batch = batch_of(bytes(200_000))

        def throttle_ms() -> int:
            return client.ask(produce_request(topic, batch), ProduceResponse, VERSION).throttle_time_ms

        assert [throttle_ms(), throttle_ms()] == [0, 0]
        entry = AlterClientQuotasRequestEntryData(
            [EntityData("client-id", "raw")], [OpData("producer_byte_rate", 10_000.0)]
        )
        client.ask(AlterClientQuotasRequest([entry]), AlterClientQuotasResponse)
        assert throttle_ms() > 0


def transaction_pipelined(
    client: RawClient, producer: RawTransactions, topic: str, sequences: tuple[int, ...]
) -> list[tuple[int, int]]:
    """Batches of one transaction, all in one piece; error and offset of each."""
    version = producer.versions.produce
    frames = [
        encode_request(producer.request(topic, 0, b"value", sequence=sequence), version, 1000 + number, "raw")
        for number, sequence in enumerate(sequences)
    ]
    client.socket.sendall(b"".join(frames))
    answers = []
    for _ in frames:
        (answer,) = client.receive(ProduceResponse, version).responses[0].partition_responses
        answers.append((answer.error_code, answer.base_offset))
    return answers


@pytest.mark.parametrize("versions", [FIRST, SECOND], ids=["first protocol", "second protocol"])
def test_pipelined_batches_of_a_transaction_repeat_themselves_only_while_it_is_open(
    client: RawClient, topic: str, versions: Versions
) -> None:
    create_topic(client, topic)
    producer = RawTransactions(client, f"pipeline of {topic}", versions)
    wait_until(lambda: producer.init().error_code == 0)
    written = 0
    next_sequence = 0
    for _ in range(3):
        if versions.adds:
            assert producer.add(topic, 0) == [ErrorCode.NONE]
        first = 0 if not versions.adds else next_sequence
        answers = transaction_pipelined(client, producer, topic, (first, first + 1, first + 2, first + 1, first + 3))
        offsets = [written, written + 1, written + 2, written + 1, written + 3]
        assert answers == [(0, offset) for offset in offsets]
        next_sequence = first + 4
        assert last_stable_offset(client, topic, 0) == written, "nothing of it can be read before its end"
        before = producer.epoch
        producer.end()
        written += 5  # With the marker.
        assert last_stable_offset(client, topic, 0) == written
    # Of the form that was taken three times; but nothing is open now, or not for this epoch.
    producer.epoch = before
    ((error, offset),) = transaction_pipelined(client, producer, topic, (next_sequence,))
    assert error in (ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_PRODUCER_EPOCH)
    assert offset == -1
    assert last_stable_offset(client, topic, 0) == written
