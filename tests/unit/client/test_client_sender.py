"""What a producer sends, and what the answers mean."""

from __future__ import annotations

from uuid import UUID

import pytest

from tidelog.client.core.accumulator import Batch
from tidelog.client.core.metadata import Topic
from tidelog.client.core.sender import (
    GiveUp,
    Sequences,
    TryAgain,
    Written,
    encode,
    newest_version,
    outcomes,
    produce_request,
)
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import Offset, PartitionIndex, ProducerEpoch, ProducerId, TopicName, TopicPartition
from tidelog.wire.batch import read_header
from tidelog.wire.compression import Compression
from tidelog.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from tidelog.wire.records import Record, read_records

NAME = TopicName("t")
P0 = TopicPartition(NAME, PartitionIndex(0))
P1 = TopicPartition(NAME, PartitionIndex(1))
TOPIC_ID = UUID(int=7)


def batch_of(partition: TopicPartition, records: int) -> Batch:
    batch = Batch(partition, 0.0)
    batch.records += [Record(0, 1000 + number, None, b"%d" % number) for number in range(records)]
    batch.callbacks += [None] * records
    return batch


def answer(partition: PartitionProduceResponse) -> ProduceResponse:
    return ProduceResponse([TopicProduceResponse("t", partition_responses=[partition])])


@pytest.mark.req("J3")
def test_sequences_count_the_records_of_each_partition_from_zero() -> None:
    sequences = Sequences()
    sequences.begin(ProducerId(9), ProducerEpoch(2))
    batches = [batch_of(P0, 3), batch_of(P1, 2), batch_of(P0, 1)]
    for batch in batches:
        encode(batch, Compression.NONE, sequences)
    headers = [read_header(batch.encoded or b"") for batch in batches]
    assert [header.base_sequence for header in headers] == [0, 0, 3]
    assert {(header.producer_id, header.producer_epoch) for header in headers} == {(9, 2)}


def test_sequences_begin_again_after_the_largest_and_with_a_new_identity() -> None:
    sequences = Sequences()
    sequences.begin(ProducerId(1), ProducerEpoch(0))
    assert sequences.take(P0, 2**31 - 1) == 0
    assert sequences.take(P0, 3) == 2**31 - 1
    assert sequences.take(P0, 1) == 2
    sequences.end()
    assert not sequences.known
    sequences.begin(ProducerId(2), ProducerEpoch(0))
    assert sequences.take(P0, 1) == 0


@pytest.mark.req("J4")
def test_a_retry_sends_the_same_bytes_under_the_old_identity() -> None:
    sequences = Sequences()
    sequences.begin(ProducerId(1), ProducerEpoch(0))
    batch = batch_of(P0, 2)
    encode(batch, Compression.NONE, sequences)
    sent = batch.encoded
    sequences.begin(ProducerId(2), ProducerEpoch(0))
    encode(batch, Compression.GZIP, sequences)
    assert batch.encoded is sent


@pytest.mark.req("H8")
def test_batches_of_one_leader_go_in_one_request() -> None:
    first, second = batch_of(P0, 2), batch_of(P1, 1)
    for batch in (first, second):
        encode(batch, Compression.LZ4, None)
    request = produce_request([first, second], {NAME: Topic(NAME, TOPIC_ID)}, acks=1, timeout_ms=500)
    (topic,) = request.topic_data
    assert (topic.name, topic.topic_id, request.acks, request.timeout_ms) == ("t", TOPIC_ID, 1, 500)
    assert [part.index for part in topic.partition_data] == [0, 1]
    assert [len(read_records(part.records or b"")) for part in topic.partition_data] == [2, 1]


def test_a_topic_without_an_id_is_asked_for_by_name() -> None:
    assert newest_version([Topic(NAME, TOPIC_ID)]) is None
    assert newest_version([Topic(NAME, TOPIC_ID), Topic(TopicName("old"))]) == 12


def test_success_tells_the_offset() -> None:
    assert outcomes(answer(PartitionProduceResponse(0, 0, 40, 99)), {}) == {P0: Written(Offset(40), 99)}


def test_a_topic_in_the_answer_is_known_by_its_id_too() -> None:
    response = ProduceResponse(
        [TopicProduceResponse(topic_id=TOPIC_ID, partition_responses=[PartitionProduceResponse(1)])]
    )
    assert list(outcomes(response, {TOPIC_ID: NAME})) == [P1]


@pytest.mark.req("J4")
def test_a_duplicate_counts_as_written() -> None:
    partition = PartitionProduceResponse(0, ErrorCode.DUPLICATE_SEQUENCE_NUMBER, -1)
    assert outcomes(answer(partition), {}) == {P0: Written(Offset(-1), -1)}


@pytest.mark.req("E8", "H10")
@pytest.mark.parametrize(
    "code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.CORRUPT_MESSAGE]
)
def test_what_may_pass_is_tried_again(code: ErrorCode) -> None:
    outcome = outcomes(answer(PartitionProduceResponse(0, code)), {})[P0]
    assert isinstance(outcome, TryAgain)
    assert outcome.error.code == code


@pytest.mark.parametrize(
    "code", [ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_RECORD]
)
def test_what_will_not_pass_is_given_up(code: ErrorCode) -> None:
    assert isinstance(outcomes(answer(PartitionProduceResponse(0, code)), {})[P0], GiveUp)


def test_the_reason_of_single_records_is_told() -> None:
    partition = PartitionProduceResponse(
        0, ErrorCode.INVALID_RECORD, record_errors=[BatchIndexAndErrorMessage(0, "no key")], error_message="some"
    )
    outcome = outcomes(answer(partition), {})[P0]
    assert isinstance(outcome, GiveUp)
    assert str(outcome.error) == "no key"
