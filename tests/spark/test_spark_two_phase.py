"""The protocol of the exactly-once sink on a real broker, without Spark: whoever dies where, each row is there once.

A task and a driver are played by objects of their own, so that each step can be the last one of somebody.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from harness.server import ServerProcess, StartBroker
from tidelog.client.arrow_read import read_partition
from tidelog.client.cluster import Cluster
from tidelog.client.transactions import Transactions
from tidelog.spark.decisions import Decision, Part, Slot, decision_in, offsets_of
from tidelog.spark.errors import SinkFailed
from tidelog.spark.two_phase import SinkTransactions, can_prepare
from tidelog.spark.write_options import WriteOptions, parse_write_options


@pytest.fixture(scope="module")
def broker(start_broker: StartBroker) -> ServerProcess:
    return start_broker({"transaction.two.phase.commit.enable": "true"})


@pytest.fixture
def options(broker: ServerProcess, topic: str) -> WriteOptions:
    return parse_write_options({"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": topic})


@pytest.fixture
def sink(options: WriteOptions, topic: str) -> SinkTransactions:
    return SinkTransactions(options, topic)


def rows(*values: str) -> Iterator[pa.RecordBatch]:
    yield pa.record_batch({"value": pa.array(values, pa.string())})


def readable(options: WriteOptions) -> list[str]:
    """What a reader of committed records sees; it ends where a transaction is open."""
    assert options.topic is not None
    with Cluster(options.bootstrap_servers) as cluster:
        batches = read_partition(cluster, options.topic, 0, 0, read_committed=True, columns=["value"])
        return [value.decode() for batch in batches for value in batch.column("value").to_pylist()]


def still_open(options: WriteOptions) -> list[str]:
    with Cluster(options.bootstrap_servers) as cluster:
        listed = Transactions(cluster).list_transactions(states=["Ongoing"])
        return [each.transactional_id for each in listed if options.topic and options.topic in each.transactional_id]


def test_rows_become_readable_when_the_driver_commits_and_not_before(
    options: WriteOptions, sink: SinkTransactions
) -> None:
    part, topics = sink.write(0, 0, rows("a", "b"))
    assert part is not None
    assert readable(options) == []

    sink.commit(0, [part], topics)

    assert readable(options) == ["a", "b"]
    assert still_open(options) == []


def test_a_batch_that_is_tried_again_after_its_commit_is_not_written_twice(
    options: WriteOptions, sink: SinkTransactions
) -> None:
    part, topics = sink.write(0, 7, rows("a"))
    assert part is not None
    sink.commit(7, [part], topics)

    again = sink.write(0, 7, rows("a"))
    sink.commit(7, [], [])

    assert again == (None, [])
    assert readable(options) == ["a"]


def test_a_driver_that_dies_after_its_decision_is_completed_by_the_next(
    options: WriteOptions, sink: SinkTransactions, topic: str
) -> None:
    first, topics = sink.write(0, 3, rows("a"))
    second, _ = sink.write(1, 3, rows("b"))
    assert first is not None and second is not None
    sink._decide(Decision(3, (first, second)), topics[0])  # type: ignore[arg-type]
    sink._complete(first)

    next_driver = SinkTransactions(options, topic)
    assert next_driver.write(0, 3, rows("a")) == (None, [])
    next_driver.commit(3, [], [])

    assert sorted(readable(options)) == ["a", "b"]
    assert still_open(options) == []


def test_what_killed_tasks_left_is_aborted_and_hinders_nobody(options: WriteOptions, sink: SinkTransactions) -> None:
    killed, _ = sink.write(0, 0, rows("killed"))
    speculative, _ = sink.write(0, 0, rows("a"))
    winner, topics = sink.write(0, 0, rows("a"))
    assert killed is not None and speculative is not None and winner is not None
    assert [part.slot.number for part in (killed, speculative, winner)] == [0, 1, 2]

    sink.commit(0, [winner], topics)

    assert readable(options) == ["a"]
    assert still_open(options) == []


def test_a_task_that_fails_leaves_nothing_open(options: WriteOptions, sink: SinkTransactions) -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield from rows("a")
        raise RuntimeError("the stage failed")

    with pytest.raises(RuntimeError, match="the stage failed"):
        sink.write(0, 0, broken())

    assert still_open(options) == []
    assert readable(options) == []


def test_an_aborted_batch_leaves_nothing_and_can_be_written_again(
    options: WriteOptions, sink: SinkTransactions
) -> None:
    done, _ = sink.write(0, 0, rows("a"))
    sink.write(1, 0, rows("of a task whose message was lost"))
    assert done is not None

    sink.abort(0, [done])
    assert still_open(options) == []
    part, topics = sink.write(0, 0, rows("a"))
    assert part is not None
    sink.commit(0, [part], topics)

    assert readable(options) == ["a"]


def test_abort_does_not_touch_what_is_decided(options: WriteOptions, sink: SinkTransactions) -> None:
    part, topics = sink.write(0, 0, rows("a"))
    assert part is not None
    sink._decide(Decision(0, (part,)), topics[0])  # type: ignore[arg-type]

    sink.abort(0, [part])
    sink.commit(0, [], [])

    assert readable(options) == ["a"]


def test_a_driver_cannot_decide_with_what_is_not_prepared_any_more(
    options: WriteOptions, sink: SinkTransactions
) -> None:
    part, topics = sink.write(0, 0, rows("a"))
    assert part is not None
    sink.clean(0)

    with pytest.raises(SinkFailed, match="not there any more"):
        sink.commit(0, [part], topics)

    assert sink.decision() is None
    assert readable(options) == []


def test_of_two_drivers_one_decides(options: WriteOptions, sink: SinkTransactions, topic: str) -> None:
    other = SinkTransactions(options, topic)
    mine, topics = sink.write(0, 0, rows("a"))
    theirs, _ = other.write(0, 0, rows("a"))
    assert mine is not None and theirs is not None

    other.commit(0, [theirs], topics)
    with pytest.raises(SinkFailed, match="committed by another driver"):
        sink.commit(0, [mine], topics)
    sink.abort(0, [mine])

    assert readable(options) == ["a"]
    assert still_open(options) == []


def test_a_late_task_stops_when_its_batch_is_decided(options: WriteOptions, sink: SinkTransactions) -> None:
    part, topics = sink.write(0, 0, rows("a"))
    assert part is not None
    sink.commit(0, [part], topics)
    part, topics = sink.write(0, 1, rows("b"))
    assert part is not None

    # It takes the id of the next batch's prepared transaction, sees it, and leaves it to the driver.
    assert sink.write(0, 0, rows("a")) == (None, [])
    sink.commit(1, [part], topics)

    assert readable(options) == ["a", "b"]


def test_a_broker_that_is_killed_forgets_neither_what_is_prepared_nor_what_is_decided(
    broker: ServerProcess, options: WriteOptions, sink: SinkTransactions
) -> None:
    part, topics = sink.write(0, 0, rows("a"))
    assert part is not None
    broker.kill()
    broker.start()

    sink.commit(0, [part], topics)
    broker.kill()
    broker.start()

    assert sink.write(0, 0, rows("a")) == (None, [])
    assert readable(options) == ["a"]


def test_a_cluster_without_two_phase_commit_is_told_apart(options: WriteOptions, start_broker: StartBroker) -> None:
    without = start_broker()
    other = parse_write_options({"kafka.bootstrap.servers": without.bootstrap_servers, "topic": "t"})

    assert can_prepare(options) is None
    assert "two.phase.commit.enable" in (can_prepare(other) or "")


def test_an_apache_kafka_that_cannot_prepare_is_told_apart(apache_kafka: ServerProcess) -> None:
    theirs = parse_write_options({"kafka.bootstrap.servers": apache_kafka.bootstrap_servers, "topic": "t"})

    assert can_prepare(theirs) == "it does not speak KIP-939"


def test_a_decision_with_many_parts_takes_several_partitions() -> None:
    from tidelog.client.core.transaction import PreparedTransaction
    from tidelog.model.ids import ProducerEpoch, ProducerId, TopicName

    parts = tuple(
        Part(Slot(task, 0), PreparedTransaction(ProducerId(10**6 + task), ProducerEpoch(3))) for task in range(500)
    )

    offsets = offsets_of(Decision(8, parts), TopicName("t"), 4)

    assert len(offsets) > 1
    assert decision_in(offsets) == Decision(8, parts)
    with pytest.raises(SinkFailed, match="coalesce"):
        offsets_of(Decision(8, parts), TopicName("t"), 1)
