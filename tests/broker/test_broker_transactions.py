"""Transactions on a running broker, request by request, in both protocols; and what must never happen."""

from __future__ import annotations

import time

import pytest

import tidelog
from harness.raw_client import RawClient, create_topic, fetch_request, produce
from harness.raw_transactions import (
    FIRST,
    SECOND,
    RawTransactions,
    Versions,
    committed_offset,
    fetched,
    high_watermark,
    last_stable_offset,
    producers_of,
    read_all,
    read_committed,
)
from harness.waiting import wait_until
from tidelog.model.errors import ErrorCode
from tidelog.wire.batch import iter_headers
from tidelog.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from tidelog.wire.messages.fetch import FetchResponse
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from tidelog.wire.messages.produce import ProduceResponse
from tidelog.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

BOTH = pytest.mark.parametrize("versions", [FIRST, SECOND], ids=["first protocol", "second protocol"])


@pytest.fixture
def wide(client: RawClient, topic: str) -> str:
    """A topic with two partitions."""
    create_topic(client, topic, 2)
    return topic


def started(client: RawClient, topic: str, versions: Versions = SECOND, timeout_ms: int = 60_000) -> RawTransactions:
    producer = RawTransactions(client, f"id of {topic}", versions)
    assert producer.init(timeout_ms).error_code == ErrorCode.NONE
    return producer


def write_markers(
    client: RawClient,
    producer: RawTransactions,
    topic: str,
    *,
    epoch: int,
    commit: bool,
    coordinator_epoch: int,
    tv: int,
) -> ErrorCode:
    marker = WritableTxnMarker(
        producer.producer_id, epoch, commit, [WritableTxnMarkerTopic(topic, [0])], coordinator_epoch, tv
    )
    answer = client.ask(WriteTxnMarkersRequest([marker]), WriteTxnMarkersResponse)
    return ErrorCode(answer.markers[0].topics[0].partitions[0].error_code)


# What transactions are for


@BOTH
@pytest.mark.req("J5")
def test_committed_records_are_read_from_all_partitions_at_once_and_aborted_ones_never(
    client: RawClient, wide: str, versions: Versions
) -> None:
    producer = started(client, wide, versions)
    producer.write(wide, 0, b"a0")
    producer.write(wide, 1, b"a1")
    assert read_committed(client, wide, 0) == read_committed(client, wide, 1) == []
    producer.end()
    producer.write(wide, 0, b"lost")
    producer.end(commit=False)
    producer.write(wide, 0, b"b0")
    producer.end()

    assert read_committed(client, wide, 0) == [b"a0", b"b0"]
    assert read_committed(client, wide, 1) == [b"a1"]
    assert read_all(client, wide, 0) == [b"a0", b"lost", b"b0"]


@BOTH
@pytest.mark.req("J5")
def test_the_last_stable_offset_stops_before_the_first_open_transaction(
    client: RawClient, wide: str, versions: Versions
) -> None:
    produce(client, wide, b"before")
    producer = started(client, wide, versions)
    producer.write(wide, 0, b"open")
    produce(client, wide, b"after")
    assert (last_stable_offset(client, wide), high_watermark(client, wide)) == (1, 3)
    assert fetched(client, wide, committed=True).last_stable_offset == 1
    assert read_committed(client, wide) == [b"before"]
    producer.end()
    assert last_stable_offset(client, wide) == high_watermark(client, wide) == 4
    assert read_committed(client, wide) == [b"before", b"open", b"after"]


def test_a_fetch_tells_of_the_aborted_transactions_in_what_it_read_and_of_no_others(
    client: RawClient, wide: str
) -> None:
    producer = started(client, wide)
    first_offsets = []
    for number in range(6):
        first_offsets.append(producer.write(wide, 0, b"%d" % number * 400))
        producer.end(commit=number % 2 == 1)

    told: list[int] = []
    offset = 0
    while offset < high_watermark(client, wide):
        request = fetch_request(wide, {0: offset}, partition_max_bytes=600, isolation_level=1)
        data = client.ask(request, FetchResponse, 12).responses[0].partitions[0]
        headers = [header for _, header in iter_headers(memoryview(data.records or b""))]
        now = [aborted.first_offset for aborted in data.aborted_transactions or ()]
        assert all(headers[0].base_offset <= first < headers[-1].next_offset for first in now), (now, offset)
        told += now
        offset = headers[-1].next_offset
    assert told == first_offsets[::2]


def test_transactions_of_several_producers_end_in_any_order(client: RawClient, wide: str) -> None:
    first = RawTransactions(client, f"first of {wide}")
    second = RawTransactions(client, f"second of {wide}")
    first.init(), second.init()
    first.write(wide, 0, b"f1")
    second.write(wide, 0, b"s1")
    first.write(wide, 0, b"f2")
    second.end()
    assert read_committed(client, wide) == []
    first.end(commit=False)
    assert read_committed(client, wide) == [b"s1"]


def test_a_waiting_fetch_of_committed_records_is_woken_by_the_commit(
    client: RawClient, embedded: tidelog.Broker, wide: str
) -> None:
    producer = started(client, wide)
    producer.write(wide, 0, b"soon")
    with RawClient(embedded.bootstrap_servers) as reader:
        reader.send(fetch_request(wide, {0: 0}, max_wait_ms=20_000, isolation_level=1), 12)
        time.sleep(0.05)
        began = time.monotonic()
        producer.end()
        answer = reader.receive(FetchResponse, 12)
    assert time.monotonic() - began < 5
    assert answer.responses[0].partitions[0].records


@BOTH
def test_offsets_count_when_their_transaction_commits_and_are_never_stale_after_it(
    client: RawClient, wide: str, versions: Versions
) -> None:
    producer = started(client, wide, versions)
    group = f"group of {wide}"
    for offset in range(1, 21):
        producer.write(wide, 0, b"v")
        assert producer.commit_offset(group, wide, 0, offset) is ErrorCode.NONE
        producer.end()
        # No waiting, no stable read: the answer to the commit is all that a consumer has waited for.
        assert committed_offset(client, group, wide, 0) == offset
        producer.commit_offset(group, wide, 0, 1000)
        producer.end(commit=False)
        assert committed_offset(client, group, wide, 0, stable=True) == offset


@BOTH
def test_offsets_of_an_open_transaction_are_unstable(client: RawClient, wide: str, versions: Versions) -> None:
    producer = started(client, wide, versions)
    group = f"group of {wide}"
    producer.commit_offset(group, wide, 0, 5)
    assert committed_offset(client, group, wide, 0) == -1
    with pytest.raises(AssertionError, match="UNSTABLE_OFFSET_COMMIT"):
        committed_offset(client, group, wide, 0, stable=True)
    producer.end()
    assert committed_offset(client, group, wide, 0, stable=True) == 5


# What must not happen


@BOTH
@pytest.mark.parametrize("commit", [True, False])
def test_a_retried_end_is_never_reported_as_rejected(
    client: RawClient, wide: str, versions: Versions, commit: bool
) -> None:
    producer = started(client, wide, versions)
    producer.write(wide, 0, b"v")
    first = producer.try_end(commit)
    for _ in range(3):
        again = producer.try_end(commit)
        assert again.error_code == ErrorCode.NONE
        assert (again.producer_id, again.producer_epoch) == (first.producer_id, first.producer_epoch)
    assert producer.try_end(not commit).error_code == ErrorCode.INVALID_TXN_STATE


def test_a_late_end_does_not_end_the_next_transaction(client: RawClient, wide: str) -> None:
    producer = started(client, wide)
    producer.write(wide, 0, b"first")
    late = EndTxnRequest(producer.transactional_id, producer.producer_id, producer.epoch, False)
    producer.end()
    producer.write(wide, 0, b"second")

    answer = client.ask(late, EndTxnResponse, 5)

    assert answer.error_code == ErrorCode.PRODUCER_FENCED
    assert producer.describe().transaction_state == "Ongoing"
    producer.end()
    assert read_committed(client, wide) == [b"first", b"second"]


@BOTH
def test_a_sequence_that_is_used_again_after_an_abort_is_not_taken_for_a_duplicate(
    client: RawClient, wide: str, versions: Versions
) -> None:
    producer = started(client, wide, versions)
    producer.write(wide, 0, b"aborted")
    producer.end(commit=False)
    if versions is FIRST:
        # Clients of the first protocol take a new epoch when they start again from sequence 0.
        request = InitProducerIdRequest(producer.transactional_id, 60_000, producer.producer_id, producer.epoch)
        producer.epoch = client.ask(request, InitProducerIdResponse, 4).producer_epoch
        producer.sequences.clear()
    assert producer.batch(wide, 0, (b"new",)) != producer.batch(wide, 0, (b"aborted",))
    offset = producer.write(wide, 0, b"new")
    producer.end()
    assert offset == 2
    assert read_committed(client, wide) == [b"new"]


@BOTH
def test_a_batch_that_comes_again_within_its_transaction_is_written_once(
    client: RawClient, wide: str, versions: Versions
) -> None:
    producer = started(client, wide, versions)
    offset = producer.write(wide, 0, b"once")
    again = producer.try_write(wide, 0, b"once", sequence=0)
    assert (again.error_code, again.base_offset) == (ErrorCode.NONE, offset)
    producer.end()
    assert read_committed(client, wide) == [b"once"]


def test_a_batch_that_arrives_after_the_end_of_its_transaction_leaves_nothing_hanging(
    client: RawClient, wide: str
) -> None:
    producer = started(client, wide)
    producer.write(wide, 0, b"in time")
    late = producer.request(wide, 0, b"late", sequence=1)
    elsewhere = producer.request(wide, 1, b"late", sequence=0)
    producer.end()
    for request in (late, elsewhere):
        answer = client.ask(request, ProduceResponse, 12).responses[0].partition_responses[0]
        assert answer.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert last_stable_offset(client, wide, 0) == high_watermark(client, wide, 0)
    assert last_stable_offset(client, wide, 1) == high_watermark(client, wide, 1) == 0


@pytest.mark.parametrize("version", [9, 10, 11])
def test_a_batch_of_the_first_protocol_whose_partition_was_not_added_leaves_nothing_hanging(
    client: RawClient, wide: str, version: int
) -> None:
    producer = started(client, wide, FIRST)
    producer.write(wide, 1, b"v")
    request = producer.request(wide, 0, b"not added")
    answer = client.ask(request, ProduceResponse, version).responses[0].partition_responses[0]
    # Clients that know it are told that they may abort and go on; the others that they did something wrong.
    expected = ErrorCode.TRANSACTION_ABORTABLE if version >= 11 else ErrorCode.INVALID_TXN_STATE
    assert answer.error_code == expected
    assert high_watermark(client, wide, 0) == 0
    producer.end(commit=False)


def test_a_late_batch_of_the_first_protocol_is_refused_once_its_transaction_has_ended(
    client: RawClient, wide: str
) -> None:
    producer = started(client, wide, FIRST)
    producer.write(wide, 0, b"in time")
    late = producer.request(wide, 0, b"late", sequence=1)
    producer.end()
    answer = client.ask(late, ProduceResponse, FIRST.produce).responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.TRANSACTION_ABORTABLE
    assert last_stable_offset(client, wide) == high_watermark(client, wide)


def test_a_transactional_batch_without_a_transactional_id_is_refused(client: RawClient, wide: str) -> None:
    producer = started(client, wide, FIRST)
    request = producer.request(wide, 0, b"v")
    request.transactional_id = None
    answer = client.ask(request, ProduceResponse, 11).responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.INVALID_TXN_STATE
    assert high_watermark(client, wide) == 0


@BOTH
def test_a_transaction_whose_producer_is_gone_times_out_and_blocks_nobody_for_ever(
    client: RawClient, wide: str, versions: Versions
) -> None:
    producer = started(client, wide, versions, timeout_ms=300)
    producer.write(wide, 0, b"left")
    produce(client, wide, b"after")
    assert last_stable_offset(client, wide) == 0
    wait_until(lambda: last_stable_offset(client, wide) == high_watermark(client, wide))
    assert read_committed(client, wide) == [b"after"]
    assert producer.describe().transaction_state == "CompleteAbort"
    assert producer.try_write(wide, 0, b"too late", sequence=1).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert producer.try_end(True).error_code == ErrorCode.PRODUCER_FENCED
    assert producer.init().error_code == ErrorCode.NONE
    producer.write(wide, 0, b"again")
    producer.end()
    assert read_committed(client, wide) == [b"after", b"again"]


@BOTH
def test_a_new_producer_fences_the_old_one_everywhere(client: RawClient, wide: str, versions: Versions) -> None:
    zombie = started(client, wide, versions)
    zombie.write(wide, 0, b"zombie")
    zombie.commit_offset("g", wide, 0, 99)
    successor = started(client, wide, versions)

    assert zombie.try_write(wide, 0, b"more", sequence=1).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert zombie.try_write(wide, 1, b"more", sequence=0).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert zombie.add(wide, 1) == [ErrorCode.PRODUCER_FENCED]
    assert zombie.commit_offset("g", wide, 0, 99) in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
    assert zombie.try_end(True).error_code == ErrorCode.PRODUCER_FENCED
    successor.write(wide, 0, b"successor")
    successor.end()
    assert read_committed(client, wide) == [b"successor"]


def test_old_clients_are_told_of_fencing_by_the_error_that_they_know(client: RawClient, wide: str) -> None:
    zombie = started(client, wide, FIRST)
    started(client, wide, FIRST)
    request = EndTxnRequest(zombie.transactional_id, zombie.producer_id, zombie.epoch, True)
    assert client.ask(request, EndTxnResponse, 1).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert client.ask(request, EndTxnResponse, 2).error_code == ErrorCode.PRODUCER_FENCED
    again = InitProducerIdRequest(zombie.transactional_id, 60_000, zombie.producer_id, zombie.epoch)
    assert client.ask(again, InitProducerIdResponse, 3).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert client.ask(again, InitProducerIdResponse, 4).error_code == ErrorCode.PRODUCER_FENCED


# Markers


def test_a_marker_of_an_older_epoch_or_of_an_older_coordinator_is_refused(client: RawClient, wide: str) -> None:
    producer = started(client, wide, FIRST)
    producer.write(wide, 0, b"v")
    producer.end()
    (known,) = producers_of(client, wide)
    newer = known.coordinator_epoch + 5

    def marker(epoch: int, coordinator_epoch: int, tv: int = 0) -> ErrorCode:
        return write_markers(
            client, producer, wide, epoch=epoch, commit=True, coordinator_epoch=coordinator_epoch, tv=tv
        )

    assert marker(producer.epoch - 1, newer) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert marker(producer.epoch, newer) is ErrorCode.NONE
    assert marker(producer.epoch, newer - 1) is ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_a_late_marker_of_the_second_protocol_does_not_end_the_next_transaction(client: RawClient, wide: str) -> None:
    producer = started(client, wide)
    producer.write(wide, 0, b"first")
    producer.end()
    late = producer.epoch
    # The same marker once more, before the next transaction begins: nothing is wrong with that.
    assert write_markers(client, producer, wide, epoch=late, commit=True, coordinator_epoch=100, tv=2) is ErrorCode.NONE
    producer.write(wide, 0, b"second")
    refused = write_markers(client, producer, wide, epoch=late, commit=False, coordinator_epoch=100, tv=2)
    assert refused is ErrorCode.INVALID_PRODUCER_EPOCH
    assert last_stable_offset(client, wide) < high_watermark(client, wide)


def test_markers_for_partitions_that_are_not_here_are_refused_one_by_one(client: RawClient, wide: str) -> None:
    marker = WritableTxnMarker(1, 0, True, [WritableTxnMarkerTopic(wide, [0, 7]), WritableTxnMarkerTopic("none", [0])])
    (result,) = client.ask(WriteTxnMarkersRequest([marker]), WriteTxnMarkersResponse).markers
    errors = {
        (topic.name, each.partition_index): each.error_code for topic in result.topics for each in topic.partitions
    }
    assert errors == {
        (wide, 0): ErrorCode.NONE,
        (wide, 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("none", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


# Requests


def test_a_partition_that_does_not_exist_is_not_added_nor_are_the_others_with_it(client: RawClient, wide: str) -> None:
    producer = started(client, wide, FIRST)
    assert producer.add(wide, 0, 9) == [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert producer.describe().transaction_state == "Empty"


def test_brokers_can_ask_what_belongs_to_a_transaction(client: RawClient, wide: str) -> None:
    producer = started(client, wide, FIRST)
    producer.add(wide, 0)
    assert producer.verify(wide, 0) is ErrorCode.NONE
    assert producer.verify(wide, 1) is ErrorCode.TRANSACTION_ABORTABLE
    producer.epoch -= 1
    assert producer.verify(wide, 0) is ErrorCode.PRODUCER_FENCED


def test_batches_that_are_sent_before_the_first_is_answered_keep_their_order(client: RawClient, wide: str) -> None:
    producer = started(client, wide)
    for number in range(5):
        client.send(producer.request(wide, 0, b"%d" % number, sequence=number), 12)
    answers = [client.receive(ProduceResponse, 12).responses[0].partition_responses[0] for _ in range(5)]
    assert [(each.error_code, each.base_offset) for each in answers] == [(0, number) for number in range(5)]
    producer.end()
    assert read_committed(client, wide) == [b"0", b"1", b"2", b"3", b"4"]


def test_a_transaction_in_the_second_protocol_begins_with_sequence_0(client: RawClient, wide: str) -> None:
    producer = started(client, wide)
    assert producer.try_write(wide, 0, b"v", sequence=3).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    producer.write(wide, 0, b"v")
    producer.end()


def test_two_batches_of_different_producers_in_one_request_do_not_mix(client: RawClient, wide: str) -> None:
    producer, other = started(client, wide), RawTransactions(client, f"other of {wide}")
    other.init()
    request = producer.request(wide, 0, b"mine")
    request.topic_data += other.request(wide, 1, b"theirs").topic_data
    answer = client.ask(request, ProduceResponse, 12)
    codes = [topic.partition_responses[0].error_code for topic in answer.responses]
    assert codes == [ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    producer.end()


def test_an_id_and_its_transaction_can_be_listed_and_described(client: RawClient, wide: str) -> None:
    producer = started(client, wide)
    producer.write(wide, 0, b"v")
    producer.write(wide, 1, b"v")
    state = producer.describe()
    assert (state.transaction_state, state.producer_id, state.producer_epoch) == (
        "Ongoing",
        producer.producer_id,
        producer.epoch,
    )
    assert [(topic.topic, topic.partitions) for topic in state.topics] == [(wide, [0, 1])]
    assert state.transaction_timeout_ms == 60_000

    def listed(**filters: object) -> set[str]:
        request = ListTransactionsRequest(**filters)  # type: ignore[arg-type]
        answer = client.ask(request, ListTransactionsResponse)
        assert answer.error_code == ErrorCode.NONE
        return {each.transactional_id for each in answer.transaction_states}

    me = producer.transactional_id
    assert me in listed()
    assert me in listed(state_filters=["Ongoing"], producer_id_filters=[producer.producer_id])
    assert me not in listed(state_filters=["Empty"])
    assert me not in listed(duration_filter=60_000)
    assert listed(transactional_id_pattern=f"id of {wide}") == {me}
    assert listed(state_filters=["Sleeping"]) == set(), "a state that is none is not every state"
    assert listed(transactional_id_pattern=f"d of {wide}") == set(), "a pattern is for the whole id"
    producer.end()
    assert me in listed(state_filters=["CompleteCommit"])
    time.sleep(0.01)
    assert me in listed(duration_filter=5), "it began longer ago, though it has ended"

    unknown = client.ask(ListTransactionsRequest(["Ongoing", "Sleeping"]), ListTransactionsResponse)
    assert unknown.unknown_state_filters == ["Sleeping"]
    bad = client.ask(ListTransactionsRequest(transactional_id_pattern="("), ListTransactionsResponse)
    assert bad.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert RawTransactions(client, "nobody").describe().error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def test_a_partition_tells_of_its_producers_and_their_open_transactions(client: RawClient, wide: str) -> None:
    produce(client, wide, b"plain")
    producer = started(client, wide)
    producer.write(wide, 0, b"a", b"b")
    (known,) = producers_of(client, wide)
    assert (known.producer_id, known.producer_epoch) == (producer.producer_id, producer.epoch)
    assert (known.last_sequence, known.current_txn_start_offset) == (1, 1)
    producer.end()
    (known,) = producers_of(client, wide)
    assert known.current_txn_start_offset == -1


@pytest.mark.parametrize("pair", [(5, -1), (-1, 5)])
def test_half_a_pair_is_an_invalid_request(client: RawClient, topic: str, pair: tuple[int, int]) -> None:
    request = InitProducerIdRequest("half", 60_000, *pair)
    assert client.ask(request, InitProducerIdResponse, 4).error_code == ErrorCode.INVALID_REQUEST
