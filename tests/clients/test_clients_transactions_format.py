"""What a coordinator writes down, read by Apache Kafka's own tools; and what Apache Kafka's wrote, read by ours."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer

from harness.java import JavaTools, dump_log_segments
from harness.server import ServerProcess
from tidelog.transactions.codec import decode_record
from tidelog.transactions.states import State
from tidelog.wire.batch import iter_headers
from tidelog.wire.records import read_records

ONE_PARTITION = {"transaction.state.log.num.partitions": "1", "offsets.topic.num.partitions": "1"}


def transact(bootstrap_servers: str, topic: str, *outcomes: bool | None, name: str = "id") -> None:
    """Unless told otherwise, one transaction that is committed, one that is aborted, one that stays open."""
    settings = {"bootstrap.servers": bootstrap_servers, "transactional.id": f"{name} of {topic}", "linger.ms": "0"}
    producer = Producer(settings)
    producer.init_transactions(30)
    for commit in outcomes or (True, False, None):
        producer.begin_transaction()
        producer.produce(topic, b"v", partition=0)
        assert producer.flush(30) == 0
        if commit is not None:
            (producer.commit_transaction if commit else producer.abort_transaction)(30)


def test_apache_kafkas_tools_read_our_transaction_log(start_broker: Callable[..., ServerProcess], topic: str) -> None:
    broker = start_broker(ONE_PARTITION)
    transact(broker.bootstrap_servers, topic)
    transact(broker.bootstrap_servers, topic, True, name="silent id")

    printed = JavaTools(broker.bootstrap_servers).console_consumer(
        *("--topic", "__transaction_state", "--from-beginning", "--timeout-ms", "15000"),
        *("--formatter", "org.apache.kafka.tools.consumer.TransactionLogMessageFormatter"),
        check=False,
    )

    # The formatter puts nothing between records.
    records = [json.JSONDecoder().raw_decode('{"key"' + rest)[0] for rest in printed.split('{"key"')[1:]]
    states: dict[str, list[str]] = {f"id of {topic}": [], f"silent id of {topic}": []}
    for record in records:
        state = State(list(State)[record["value"]["data"]["transactionStatus"]])
        states[record["key"]["data"]["transactionalId"]].append(state.value)
    # That one is complete is only written down when the next does not begin at once.
    assert states[f"silent id of {topic}"] == ["Empty", "Ongoing", "PrepareCommit", "CompleteCommit"]
    unlike_complete = [state for state in states[f"id of {topic}"] if not state.startswith("Complete")]
    assert unlike_complete == ["Empty", "Ongoing", "PrepareCommit", "Ongoing", "PrepareAbort", "Ongoing"]
    ongoing = records[1]["value"]["data"]
    assert ongoing["transactionPartitions"] == [{"topic": topic, "partitionIds": [0]}]
    assert ongoing["transactionTimeoutMs"] == 60_000


def test_apache_kafkas_tools_read_our_markers_and_our_index_of_aborted_transactions(
    start_broker: Callable[..., ServerProcess], topic: str
) -> None:
    broker = start_broker(ONE_PARTITION)
    transact(broker.bootstrap_servers, topic)
    broker.stop()
    folder = broker.folder / "data" / f"{topic}-0"
    segment = folder / "00000000000000000000.log"

    printed = dump_log_segments(segment, arguments=("--print-data-log",))
    assert "endTxnMarker: COMMIT coordinatorEpoch: 0" in printed
    assert "endTxnMarker: ABORT coordinatorEpoch: 0" in printed
    assert printed.count("isTransactional: true isControl: false") == 3

    index = dump_log_segments(segment.with_suffix(".txnindex"))
    # The first transaction is at 0 with its marker at 1; the aborted one at 2 ends at 3.
    assert "firstOffset: 2 lastOffset: 3" in index
    (snapshot,) = sorted(folder.glob("*.snapshot"))[-1:]
    assert "currentTxnFirstOffset: OptionalLong[4]" in dump_log_segments(snapshot)


def test_we_read_the_transaction_log_of_apache_kafka(apache_kafka: ServerProcess, topic: str) -> None:
    transact(apache_kafka.bootstrap_servers, topic)
    (segment,) = Path(apache_kafka.folder, "data").glob("__transaction_state-0/*.log")
    data = memoryview(segment.read_bytes())

    found = []
    for position, header in iter_headers(data):
        if not header.is_control:
            for record in read_records(data, position):
                decoded = decode_record(record.key, record.value)
                assert decoded is not None
                if decoded.transactional_id == f"id of {topic}":
                    found.append(decoded.transaction)

    states = [transaction.state for transaction in found if transaction is not None]
    assert states == [
        State.EMPTY,
        State.ONGOING,
        State.PREPARE_COMMIT,
        State.COMPLETE_COMMIT,
        State.ONGOING,
        State.PREPARE_ABORT,
        State.COMPLETE_ABORT,
        State.ONGOING,
    ]
    last = found[-1]
    assert last is not None
    assert {str(partition) for partition in last.partitions} == {f"{topic}-0"}


def test_an_open_transaction_survives_a_restart_until_its_successor_aborts_it(
    start_broker: Callable[..., ServerProcess], topic: str
) -> None:
    broker = start_broker(ONE_PARTITION)
    transact(broker.bootstrap_servers, topic)
    broker.restart()
    successor = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": f"id of {topic}"})
    successor.init_transactions(30)
    broker.stop()
    segment = broker.folder / "data" / f"{topic}-0" / "00000000000000000000.log"
    assert dump_log_segments(segment, arguments=("--print-data-log",)).count("endTxnMarker: ABORT") == 2
