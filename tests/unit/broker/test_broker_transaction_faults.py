"""What the coordinator and the partitions do when the disk is slow, full or gone: one fault, one fact."""

from __future__ import annotations

from typing import Any

import pytest

from harness.transaction_broker import DATA_TOPIC
from harness.transaction_world import CALM, World
from tidelog.broker.marker_waits import MARKERS_WAIT_MS
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import PartitionIndex
from tidelog.wire.messages.end_txn import EndTxnRequest
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest
from tidelog.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tidelog.wire.records import Record, build_batch

ID = "payments"
# Longer than anything that is waited for within a test.
SLOW_MS = 5_000
TIMEOUT_MS = 10_000


class Bench:
    """A world without faults but those that the test makes."""

    def __init__(self, *, strict: bool) -> None:
        self.world = World(1, CALM, strict=strict)

    def send(self, request: Any, version: int) -> list[Any]:
        """Send a request; its answer appears in the list when it comes."""
        answers: list[Any] = []
        assert self.world.broker is not None
        self.world.broker.handle(request, version, answers.append)
        return answers

    def ask(self, request: Any, version: int) -> Any:
        answers = self.send(request, version)
        self.run(SLOW_MS)
        (answer,) = answers
        return answer

    def run(self, milliseconds: int) -> None:
        self.world.run(self.world.now_ms + milliseconds)

    def slow_syncs(self) -> None:
        self.world.sync_ms_max = 1_000_000

    def restart(self) -> None:
        """The process dies and comes back; the machine under it keeps its power, and the page cache its content."""
        self.world.life += 1
        self.world.broker = None
        self.world._start()

    def leader(self, topic: str, index: int = 0) -> Any:
        assert self.world.broker is not None
        return self.world.broker.partitions.by_name[topic][index]

    # What producers send

    def init(self, transactional_id: str = ID) -> list[Any]:
        return self.send(InitProducerIdRequest(transactional_id, TIMEOUT_MS), 5)

    def initialised(self) -> tuple[int, int]:
        answers = self.init()
        self.run(SLOW_MS)
        return answers[0].producer_id, answers[0].producer_epoch

    def write(self, pair: tuple[int, int], *, within_ms: int = SLOW_MS) -> ErrorCode:
        batch = build_batch(
            [Record(0, self.world.now_ms, None, b"value")],
            producer_id=pair[0],  # type: ignore[arg-type]
            producer_epoch=pair[1],  # type: ignore[arg-type]
            base_sequence=0,
            is_transactional=True,
        )
        data = [TopicProduceData(DATA_TOPIC, partition_data=[PartitionProduceData(0, batch)])]
        answers = self.send(ProduceRequest(ID, -1, 1_000, data), 12)
        self.run(within_ms)
        (answer,) = answers
        return ErrorCode(answer.responses[0].partition_responses[0].error_code)

    def commit_offset(self, pair: tuple[int, int], offset: int) -> list[Any]:
        request = TxnOffsetCommitRequest(ID, "group", *pair)
        request.topics = [TxnOffsetCommitRequestTopic(DATA_TOPIC, [TxnOffsetCommitRequestPartition(0, offset)])]
        return self.send(request, 5)

    def committed_offset(self) -> int:
        asked = OffsetFetchRequestGroup(
            "group", topics=[OffsetFetchRequestTopics(name=DATA_TOPIC, partition_indexes=[0])]
        )
        answer = self.ask(OffsetFetchRequest(groups=[asked]), 8)
        offset: int = answer.groups[0].topics[0].partitions[0].committed_offset
        return offset

    def end(self, pair: tuple[int, int]) -> list[Any]:
        return self.send(EndTxnRequest(ID, *pair, True), 5)


def test_after_a_restart_nothing_is_answered_from_records_that_a_loss_of_power_would_still_take() -> None:
    bench = Bench(strict=True)
    _, epoch = bench.initialised()
    bench.slow_syncs()
    lost = bench.init()
    bench.run(10)
    assert lost == [], "it waits for the sync"
    bench.restart()

    log = bench.leader("__transaction_state").log
    assert bench.leader("__transaction_state").high_watermark == log.recovery_point < log.end_offset
    answers = bench.init()
    bench.run(10)
    assert answers == [], "the epoch before the one that it would get is only in the page cache"
    bench.run(bench.world.sync_ms_max * 2)
    assert answers[0].producer_epoch == epoch + 2
    assert log.unflushed_records == 0


def test_a_sync_that_is_done_after_a_later_write_failed_does_no_harm() -> None:
    bench = Bench(strict=True)
    for transactional_id in ("one", "two"):
        bench.init(transactional_id)
        bench.run(SLOW_MS)
    bench.slow_syncs()
    first = bench.init("one")
    bench.run(1)
    bench.world.files.capacity_bytes = 0
    second = bench.init("two")
    bench.run(1)
    # What became of them cannot be known here: both are to look for the coordinator again.
    assert [first[0].error_code, second[0].error_code] == [ErrorCode.NOT_COORDINATOR] * 2
    bench.world.files.capacity_bytes = None
    bench.world.sync_ms_max = 4
    bench.run(2_000_000)

    for transactional_id in ("one", "two"):
        answers = bench.init(transactional_id)
        bench.run(SLOW_MS)
        assert answers[0].error_code == ErrorCode.NONE


@pytest.mark.req("J5")
def test_a_commit_is_not_answered_before_it_can_be_read_everywhere() -> None:
    bench = Bench(strict=False)
    pair = bench.initialised()
    assert bench.write(pair) is ErrorCode.NONE
    bench.commit_offset(pair, 42)
    bench.run(10)
    led = bench.world.broker.partitions.by_name[DATA_TOPIC]  # type: ignore[union-attr]
    leader = led.pop(PartitionIndex(0))  # As while the partition moves to another broker.

    answers = bench.end(pair)
    bench.run(400)
    assert answers == []
    bench.run(200)
    assert answers[0].error_code == ErrorCode.CONCURRENT_TRANSACTIONS, "it is to ask again"
    led[PartitionIndex(0)] = leader
    again = bench.end(pair)
    bench.run(SLOW_MS)
    assert again[0].error_code == ErrorCode.NONE
    assert leader.last_stable_offset == 2
    assert bench.committed_offset() == 42


@pytest.mark.parametrize("committed", [True, False], ids=["then committed", "then given up"])
def test_a_transaction_of_which_no_record_says_so_outlives_the_broker(committed: bool) -> None:
    """It began where the last one ended: the marker of that, written once more, finds it."""
    bench = Bench(strict=False)
    pair = bench.initialised()
    assert bench.write(pair, within_ms=5) is ErrorCode.NONE
    (ended,) = bench.end(pair)
    bench.run(5)
    pair = (ended.producer_id, ended.producer_epoch)
    written = bench.leader("__transaction_state").log.end_offset
    assert bench.write(pair, within_ms=5) is ErrorCode.NONE
    assert bench.leader("__transaction_state").log.end_offset == written

    bench.restart()
    if committed:
        answers = bench.end(pair)
        bench.run(1_000)
        assert answers[0].error_code == ErrorCode.NONE
    else:
        bench.run(2 * TIMEOUT_MS)

    leader = bench.leader(DATA_TOPIC)
    assert leader.last_stable_offset == leader.log.end_offset == 4, "two records and a marker for each"
    assert len(leader.log.aborted_transactions(leader.log.start_offset, leader.high_watermark)) == (not committed)


def test_who_comes_while_a_transaction_ends_is_answered_as_soon_as_it_has_ended() -> None:
    """Also when the refusal itself had to wait until it was safe, and the end overtook it."""
    bench = Bench(strict=True)
    pair = bench.initialised()
    assert bench.write(pair) is ErrorCode.NONE
    for wait_ms in range(12):
        answers = bench.end(pair)
        bench.run(wait_ms)
        bench.init("another")  # Its record is not safe when the next request is refused.
        successor = bench.init()
        bench.run(MARKERS_WAIT_MS // 2)
        assert answers[0].error_code == ErrorCode.NONE
        assert successor[0].error_code == ErrorCode.NONE
        pair = (successor[0].producer_id, successor[0].producer_epoch)
        assert bench.write(pair) is ErrorCode.NONE


def test_offsets_that_are_sent_again_before_the_first_were_answered_are_taken_twice() -> None:
    bench = Bench(strict=True)
    pair = bench.initialised()
    first = bench.commit_offset(pair, 42)
    again = bench.commit_offset(pair, 42)
    bench.run(SLOW_MS)

    codes = [answers[0].topics[0].partitions[0].error_code for answers in (first, again)]
    assert codes == [ErrorCode.NONE, ErrorCode.NONE]
    assert bench.end(pair) == []
    bench.run(SLOW_MS)
    assert bench.committed_offset() == 42


RETRIED_BY_EVERY_CLIENT = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.KAFKA_STORAGE_ERROR,
}


def test_no_fault_of_the_disk_is_told_as_an_unknown_server_error_nor_as_anything_that_costs_the_epoch() -> None:
    """UNKNOWN_SERVER_ERROR makes clients take a new epoch and send again what may have been written."""
    bench = Bench(strict=False)
    pair = bench.initialised()
    bench.world.files.capacity_bytes = 0
    codes = {bench.write(pair)}
    for answers, code_of in (
        (bench.init(), lambda it: it.error_code),
        (bench.commit_offset(pair, 1), lambda it: it.topics[0].partitions[0].error_code),
    ):
        bench.run(1_000)
        codes.add(ErrorCode(code_of(answers[0])))
    assert codes <= RETRIED_BY_EVERY_CLIENT
    bench.world.files.capacity_bytes = None
    bench.run(1_000)

    assert bench.write(pair) is ErrorCode.NONE, "the same producer goes on under its epoch"
    bench.world.files.capacity_bytes = 0
    ended = bench.end(pair)
    bench.run(1_000)
    assert ErrorCode(ended[0].error_code) in RETRIED_BY_EVERY_CLIENT
    bench.world.files.capacity_bytes = None
    bench.run(1_000)
    ended = bench.end(pair)
    bench.run(1_000)
    assert ended[0].error_code == ErrorCode.NONE


def test_a_transaction_times_out_late_when_the_disk_is_full_at_its_deadline() -> None:
    bench = Bench(strict=False)
    pair = bench.initialised()
    assert bench.write(pair) is ErrorCode.NONE
    bench.world.files.capacity_bytes = 0
    bench.run(20_000)
    assert bench.leader(DATA_TOPIC).last_stable_offset == 0
    bench.world.files.capacity_bytes = None
    bench.run(SLOW_MS)

    assert bench.leader(DATA_TOPIC).last_stable_offset == bench.leader(DATA_TOPIC).log.end_offset == 2
