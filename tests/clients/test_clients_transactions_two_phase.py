"""Two-phase commit through a real broker (KIP-939): what is prepared waits for the outside coordinator's decision, over
restarts and kills of the broker, without a time-out.

Spoken request by request: no released client has it as a whole yet, and Apache Kafka 4.2 does not keep transactions.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from drivers.topics import create_topic

from harness.raw_client import RawClient
from harness.raw_transactions import (
    SECOND,
    RawTransactions,
    committed_offset,
    last_stable_offset,
    read_all,
    read_committed,
)
from harness.server import ServerProcess, StartBroker
from harness.tidelog_server import tidelog_server
from tidelog.model.errors import ErrorCode

INIT_VERSION = 6
NOBODY = (-1, -1)
SHORT_TIMEOUT_MS = 500
IDS_MAX = 20
SETTINGS = {
    "transaction.two.phase.commit.enable": "true",
    "transaction.state.log.num.partitions": "1",
    "tidelog.two.phase.ids.max": str(IDS_MAX),
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Ours, whichever server the other tests are asked to use: no other keeps transactions yet."""
    made = tidelog_server(tmp_path_factory.mktemp("broker"), SETTINGS)
    made.start()
    yield made
    made.stop()


@pytest.fixture
def client(broker: ServerProcess) -> Iterator[RawClient]:
    with RawClient(broker.bootstrap_servers) as connected:
        yield connected


def come(broker: ServerProcess, transactional_id: str) -> tuple[RawTransactions, tuple[int, int]]:
    """A run of a sink that prepares: the producer, and the transaction that it found open."""
    producer = RawTransactions(RawClient(broker.bootstrap_servers), transactional_id, SECOND)
    answer = producer.init(SHORT_TIMEOUT_MS, INIT_VERSION, two_phase_commit=True, keep=True)
    assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code)
    return producer, (answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch)


def prepare(broker: ServerProcess, topic: str) -> tuple[RawTransactions, tuple[int, int]]:
    """Write to two partitions and commit an offset; all is acknowledged, so the transaction is prepared."""
    create_topic(broker.bootstrap_servers, topic, 2)
    producer, found = come(broker, topic)
    assert found == NOBODY
    for partition in (0, 1):
        producer.write(topic, partition, b"prepared")
    assert producer.commit_offset(f"group of {topic}", topic, 0, 42) is ErrorCode.NONE
    return producer, (producer.producer_id, producer.epoch)


@pytest.mark.req("J5")
@pytest.mark.parametrize(("how", "commit"), [("stop", True), ("kill", True), ("kill", False)])
def test_what_is_prepared_outlives_the_broker_and_ends_as_was_decided(
    broker: ServerProcess, topic: str, how: str, commit: bool
) -> None:
    _, prepared = prepare(broker, topic)
    # The sink dies, and the broker twice.
    for _ in range(2):
        broker.stop() if how == "stop" else broker.kill()
        broker.start()
    with RawClient(broker.bootstrap_servers) as client:
        assert last_stable_offset(client, topic) == 0
        assert read_committed(client, topic) == []

        # The outside coordinator knows the prepared pair, and what was decided for it.
        successor, found = come(broker, topic)
        assert found == prepared
        successor.end(commit)

        for partition in (0, 1):
            assert read_committed(client, topic, partition) == ([b"prepared"] if commit else [])
            assert read_all(client, topic, partition) == [b"prepared"]
        assert committed_offset(client, f"group of {topic}", topic, 0) == (42 if commit else -1)
        # And it goes on with a transaction of its own.
        successor.write(topic, 0, b"next")
        successor.end()
        assert read_committed(client, topic)[-1] == b"next"


def test_what_is_prepared_does_not_time_out_also_after_a_restart(broker: ServerProcess, topic: str) -> None:
    _, prepared = prepare(broker, topic)
    usual = RawTransactions(RawClient(broker.bootstrap_servers), f"usual {topic}")
    assert usual.init(SHORT_TIMEOUT_MS).error_code == ErrorCode.NONE
    usual.write(topic, 0, b"times out")
    broker.kill()
    broker.start()
    usual.client = RawClient(broker.bootstrap_servers)
    deadline = time.monotonic() + 20
    while usual.describe().transaction_state != "CompleteAbort":
        assert time.monotonic() < deadline
        time.sleep(0.1)

    successor, found = come(broker, topic)
    assert found == prepared
    successor.end()
    assert read_committed(successor.client, topic) == [b"prepared"]


def test_any_number_of_runs_find_the_same_transaction_and_only_the_last_can_end_it(
    broker: ServerProcess, topic: str
) -> None:
    first, prepared = prepare(broker, topic)
    second, found_by_second = come(broker, topic)
    broker.kill()
    broker.start()
    third, found_by_third = come(broker, topic)
    assert found_by_second == found_by_third == prepared

    for zombie in (first, second):
        zombie.client = third.client
        assert zombie.try_end(commit=False).error_code == ErrorCode.PRODUCER_FENCED
    third.end()
    assert read_committed(third.client, topic) == [b"prepared"]


def test_a_kept_transaction_takes_no_more_records(broker: ServerProcess, topic: str) -> None:
    prepare(broker, topic)
    successor, _ = come(broker, topic)

    assert successor.try_write(topic, 0, b"too late").error_code != ErrorCode.NONE
    successor.end()
    assert read_committed(successor.client, topic) == [b"prepared"]


def test_a_retried_end_of_a_kept_transaction_is_answered_as_the_first_also_by_the_next_broker(
    broker: ServerProcess, topic: str
) -> None:
    prepare(broker, topic)
    successor, _ = come(broker, topic)
    first = successor.try_end(commit=True)
    assert first.error_code == ErrorCode.NONE
    broker.kill()
    broker.start()
    successor.client = RawClient(broker.bootstrap_servers)

    again = successor.try_end(commit=True)
    assert (again.error_code, again.producer_epoch) == (ErrorCode.NONE, first.producer_epoch)


def test_a_producer_that_does_not_keep_it_aborts_what_was_prepared(broker: ServerProcess, topic: str) -> None:
    prepare(broker, topic)
    other = RawTransactions(RawClient(broker.bootstrap_servers), topic)
    answer = other.init(version=INIT_VERSION)

    assert answer.error_code == ErrorCode.NONE
    assert (answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch) == NOBODY
    assert read_committed(other.client, topic) == []
    assert last_stable_offset(other.client, topic) == 2


def test_more_ids_than_are_allowed_may_not_prepare(broker: ServerProcess, client: RawClient) -> None:
    codes = []
    for number in range(IDS_MAX + 1):
        producer = RawTransactions(client, f"one of many {number}", SECOND)
        codes.append(producer.init(1_000, INIT_VERSION, two_phase_commit=True).error_code)

    assert codes[-1] == ErrorCode.POLICY_VIOLATION
    usual = RawTransactions(client, "usual")
    assert usual.init(1_000).error_code == ErrorCode.NONE


def test_without_the_operators_permission_nobody_may_prepare(broker: ServerProcess, start_broker: StartBroker) -> None:
    with RawClient(start_broker().bootstrap_servers) as client:
        producer = RawTransactions(client, "eager")
        refused = producer.init(version=INIT_VERSION, two_phase_commit=True)

        assert refused.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert producer.init(version=INIT_VERSION).error_code == ErrorCode.NONE
