"""Retention and deletion by command beside open transactions."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

import tidelog
from harness.raw_client import RawClient, create_topic, produce
from harness.raw_transactions import RawTransactions, fetched, last_stable_offset
from harness.waiting import wait_until
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)

CHECK_MS = 50
RETENTION_MS = 400


@pytest.fixture(scope="module")
def embedded() -> Iterator[tidelog.Broker]:
    with tidelog.Broker(config={"log.retention.check.interval.ms": CHECK_MS}) as broker:
        yield broker


def log_start(client: RawClient, topic: str) -> int:
    return fetched(client, topic, committed=False).log_start_offset


def test_what_may_still_be_committed_does_not_expire_before_anybody_could_read_it(
    client: RawClient, topic: str
) -> None:
    create_topic(client, topic, retention_ms=str(RETENTION_MS), segment_ms="1")
    produce(client, topic, b"old")
    time.sleep(0.01)
    producer = RawTransactions(client, topic)
    assert producer.init().error_code == ErrorCode.NONE
    start = producer.write(topic, 0, b"open")
    time.sleep(0.01)
    produce(client, topic, b"new")

    wait_until(lambda: log_start(client, topic) == start)
    time.sleep((RETENTION_MS + 5 * CHECK_MS) / 1000)
    assert log_start(client, topic) == start, "though it is too old by now"
    assert b"open" in bytes(fetched(client, topic, offset=start, committed=False).records or b"")
    producer.end()
    wait_until(lambda: log_start(client, topic) > start)


def test_an_open_transaction_whose_records_are_deleted_by_command_holds_back_nobody_before_the_new_start(
    client: RawClient, topic: str
) -> None:
    create_topic(client, topic)
    producer = RawTransactions(client, topic)
    assert producer.init().error_code == ErrorCode.NONE
    producer.write(topic, 0, b"one", b"two", b"three")
    asked = DeleteRecordsRequest([DeleteRecordsTopic(topic, [DeleteRecordsPartition(0, 2)])], 5_000)
    (deleted,) = client.ask(asked, DeleteRecordsResponse).topics[0].partitions
    assert (deleted.error_code, deleted.low_watermark) == (ErrorCode.NONE, 2)

    assert last_stable_offset(client, topic) == 2
    producer.end()
    assert last_stable_offset(client, topic) == 4
