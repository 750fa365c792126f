"""Fetch on a running broker: long polling, sessions, limits, isolation from other partitions."""

from __future__ import annotations

import threading
import time
from itertools import groupby

import pytest

import tidelog
from harness.raw_client import RawClient, create_topic, fetch_request, produce
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.fetch import FetchResponse, ForgottenTopic
from tidelog.wire.records import read_records


def values_of(response: FetchResponse) -> dict[int, list[bytes | None]]:
    found: dict[int, list[bytes | None]] = {}
    for topic in response.responses:
        for partition in topic.partitions:
            data = partition.records
            values: list[bytes | None] = []
            position = 0
            while data is not None and position < len(data):
                values += [record.value for record in read_records(data, position)]
                position += int.from_bytes(data[position + 8 : position + 12], "big") + 12
            found[partition.partition_index] = values
    return found


def fetch(client: RawClient, topic: str, offsets: dict[int, int], **options: object) -> FetchResponse:
    return client.ask(fetch_request(topic, offsets, **options), FetchResponse, 12)  # type: ignore[arg-type]


@pytest.mark.req("A17", "B15")
def test_a_fetch_begins_with_the_batch_that_holds_the_offset(client: RawClient, topic: str) -> None:
    create_topic(client, topic)
    produce(client, topic, b"0", b"1", b"2")
    produce(client, topic, b"3")
    assert values_of(fetch(client, topic, {0: 2})) == {0: [b"0", b"1", b"2", b"3"]}
    assert values_of(fetch(client, topic, {0: 3})) == {0: [b"3"]}


def test_an_offset_outside_of_the_log_is_refused_with_the_start_of_the_log(client: RawClient, topic: str) -> None:
    create_topic(client, topic)
    produce(client, topic, b"0")
    (partition,) = fetch(client, topic, {0: 5}).responses[0].partitions
    assert partition.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert partition.log_start_offset == 0


def test_a_fetch_at_the_end_waits_for_the_next_record(embedded: tidelog.Broker, client: RawClient, topic: str) -> None:
    create_topic(client, topic)
    client.send(fetch_request(topic, {0: 0}, max_wait_ms=10_000), 12)
    time.sleep(0.2)
    with RawClient(embedded.bootstrap_servers) as producer:
        began = time.monotonic()
        produce(producer, topic, b"awaited")
    assert values_of(client.receive(FetchResponse, 12)) == {0: [b"awaited"]}
    assert time.monotonic() - began < 5


def test_a_fetch_that_finds_nothing_answers_after_its_time(client: RawClient, topic: str) -> None:
    create_topic(client, topic)
    began = time.monotonic()
    assert values_of(fetch(client, topic, {0: 0}, max_wait_ms=300)) == {0: []}
    assert 0.25 < time.monotonic() - began < 5


def test_a_fetch_waits_until_min_bytes_are_there(embedded: tidelog.Broker, client: RawClient, topic: str) -> None:
    create_topic(client, topic)
    client.send(fetch_request(topic, {0: 0}, max_wait_ms=20_000, min_bytes=2_000), 12)
    with RawClient(embedded.bootstrap_servers) as producer:
        for _ in range(3):
            produce(producer, topic, b"x" * 800)
    assert values_of(client.receive(FetchResponse, 12)) == {0: [b"x" * 800] * 3}


def test_answers_keep_their_order_when_a_fetch_waits_in_front(
    embedded: tidelog.Broker, client: RawClient, topic: str
) -> None:
    create_topic(client, topic)
    first = client.send(fetch_request(topic, {0: 0}, max_wait_ms=1_000), 12)
    second = client.send(fetch_request(topic, {0: 0}), 12)
    assert second == first + 1
    began = time.monotonic()
    client.receive(FetchResponse, 12)
    assert time.monotonic() - began > 0.5
    client.receive(FetchResponse, 12)


def test_a_batch_larger_than_every_limit_is_returned_alone(client: RawClient, topic: str) -> None:
    create_topic(client, topic, 2)
    for partition in (0, 1):
        produce(client, topic, b"y" * 50_000, partition=partition)
    response = fetch(client, topic, {0: 0, 1: 0}, max_bytes=1_000, partition_max_bytes=1_000)
    assert sorted(map(len, values_of(response).values())) == [0, 1]


def test_a_partition_that_is_left_out_for_want_of_room_comes_next(client: RawClient, topic: str) -> None:
    create_topic(client, topic, 2)
    for partition in (0, 1):
        for number in range(5):
            produce(client, topic, b"%d" % number * 100, partition=partition)

    answer = fetch(client, topic, {0: 0, 1: 0}, session=(0, 0), max_bytes=250, partition_max_bytes=250)
    session_id, positions, seen = answer.session_id, {0: 0, 1: 0}, []
    for epoch in range(1, 11):
        (served,) = [index for index, values in values_of(answer).items() if values]
        seen.append(served)
        positions[served] += 1
        moved = {served: positions[served]}
        answer = fetch(client, topic, moved, session=(session_id, epoch), max_bytes=250, partition_max_bytes=250)

    assert sorted(seen) == [0] * 5 + [1] * 5
    assert max(len(list(run)) for _, run in groupby(seen)) == 1, "one of them was served twice before the other"


@pytest.mark.req("D13", "K8")
def test_an_incremental_fetch_tells_only_of_partitions_with_news(client: RawClient, topic: str) -> None:
    create_topic(client, topic, 3)
    first = fetch(client, topic, {0: 0, 1: 0, 2: 0}, session=(0, 0))
    assert first.session_id > 0
    assert set(values_of(first)) == {0, 1, 2}
    assert values_of(fetch(client, topic, {}, session=(first.session_id, 1))) == {}
    produce(client, topic, b"news", partition=1)
    assert values_of(fetch(client, topic, {}, session=(first.session_id, 2))) == {1: [b"news"]}
    # The client has not moved on in partition 1, so it is told again.
    assert values_of(fetch(client, topic, {}, session=(first.session_id, 3))) == {1: [b"news"]}
    assert values_of(fetch(client, topic, {1: 1}, session=(first.session_id, 4))) == {}


def test_a_session_forgets_partitions_on_demand(client: RawClient, topic: str) -> None:
    create_topic(client, topic, 2)
    session_id = fetch(client, topic, {0: 0, 1: 0}, session=(0, 0)).session_id
    request = fetch_request(topic, {}, session=(session_id, 1))
    request.forgotten_topics_data = [ForgottenTopic(topic, partitions=[0])]
    client.ask(request, FetchResponse, 12)
    for partition in (0, 1):
        produce(client, topic, b"z", partition=partition)
    assert values_of(fetch(client, topic, {}, session=(session_id, 2))) == {1: [b"z"]}


def test_a_waiting_session_wakes_up_for_any_of_its_partitions(
    embedded: tidelog.Broker, client: RawClient, topic: str
) -> None:
    create_topic(client, topic, 100)
    session_id = fetch(client, topic, dict.fromkeys(range(100), 0), session=(0, 0)).session_id
    client.send(fetch_request(topic, {}, session=(session_id, 1), max_wait_ms=10_000), 12)
    with RawClient(embedded.bootstrap_servers) as producer:
        produce(producer, topic, b"wake up", partition=73)
    assert values_of(client.receive(FetchResponse, 12)) == {73: [b"wake up"]}


def test_sessions_are_fenced_by_their_epoch(client: RawClient, topic: str) -> None:
    create_topic(client, topic)
    session_id = fetch(client, topic, {0: 0}, session=(0, 0)).session_id
    assert fetch(client, topic, {}, session=(session_id, 5)).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert fetch(client, topic, {}, session=(session_id + 1, 1)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert fetch(client, topic, {0: 0}, session=(session_id, -1)).error_code == 0
    assert fetch(client, topic, {}, session=(session_id, 1)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_deleted_topic_wakes_up_those_who_wait_for_it(
    embedded: tidelog.Broker, client: RawClient, topic: str
) -> None:
    from tidelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse

    create_topic(client, topic)
    client.send(fetch_request(topic, {0: 0}, max_wait_ms=20_000), 12)
    with RawClient(embedded.bootstrap_servers) as admin:
        admin.ask(DeleteTopicsRequest(topic_names=[topic]), DeleteTopicsResponse, 5)
    (partition,) = client.receive(FetchResponse, 12).responses[0].partitions
    assert partition.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_many_consumers_wait_on_one_partition_and_all_are_woken(embedded: tidelog.Broker, topic: str) -> None:
    with RawClient(embedded.bootstrap_servers) as client:
        create_topic(client, topic)
        waiting = [RawClient(embedded.bootstrap_servers) for _ in range(50)]
        for consumer in waiting:
            consumer.send(fetch_request(topic, {0: 0}, max_wait_ms=20_000), 12)
        producing = threading.Timer(0.1, produce, (client, topic, b"for all"))
        producing.start()
        for consumer in waiting:
            assert values_of(consumer.receive(FetchResponse, 12)) == {0: [b"for all"]}
            consumer.socket.close()
        producing.join()
