"""A partition as a journal: records of one turn share a batch, in the order and at the offsets that were promised."""

from __future__ import annotations

import errno

import pytest

from harness.leaders import lone_leader
from harness.logs import NOON_MS, batch_of, new_log
from tidelog.broker.partition_journal import SHARED_RECORDS_MAX, PartitionJournal
from tidelog.env.clock import SimulatedClock
from tidelog.env.simulated_files import SimulatedFiles
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import LeaderEpoch
from tidelog.replica.leader import PartitionLeader
from tidelog.wire.batch import iter_headers
from tidelog.wire.messages.produce import PartitionProduceResponse
from tidelog.wire.records import read_records

EPOCH = LeaderEpoch(3)


class Bench:
    def __init__(self) -> None:
        self.files = SimulatedFiles(seed=1)
        self.files.make_directory("/data")
        self.to_write: list[PartitionLeader] = []
        log = new_log(self.files, SimulatedClock(NOON_MS), "/data/tides-0")
        self.leader = lone_leader(log, EPOCH, self.to_write.append)
        self.told: list[int | str] = []
        self.journal = PartitionJournal(self.leader, self.told.append, lambda: self.told.append("lost"))

    def append(self, *keys: bytes) -> int:
        return self.journal.append_shared([(NOON_MS, key, b"value") for key in keys])

    def settle(self) -> int:
        """What the turn does; how many writes it was asked for."""
        writes = 0
        while self.to_write:
            self.to_write.pop(0).write_staged()
            writes += 1
        return writes

    def batches(self) -> list[list[tuple[int, bytes | None]]]:
        log = self.leader.log
        piece = log.read(log.start_offset, 1 << 20, log.end_offset)
        data = memoryview(piece.read() if piece is not None else b"")
        return [
            [(record.offset, record.key) for record in read_records(data, position)]
            for position, _ in iter_headers(data)
        ]


def test_records_of_a_turn_are_one_batch_and_become_safe_together() -> None:
    bench = Bench()
    assert [bench.append(b"a"), bench.append(b"b", b"c"), bench.append(b"d")] == [1, 3, 4]
    assert bench.batches() == []
    assert bench.settle() == 1
    assert bench.batches() == [[(0, b"a"), (1, b"b"), (2, b"c"), (3, b"d")]]
    assert bench.told == [4]
    assert bench.append(b"e") == 5
    bench.settle()
    assert bench.batches()[1:] == [[(4, b"e")]]
    assert bench.told == [4, 5]


def test_whoever_comes_between_gets_the_offset_after_what_was_promised() -> None:
    bench = Bench()
    bench.append(b"a")
    own = batch_of([b"of the broker"])
    assert bench.journal.append(bytearray(own)) == 2
    bench.append(b"b")
    answer = PartitionProduceResponse(0)
    bench.leader.stage(batch_of([b"of a client"], timestamp=NOON_MS), answer, NOON_MS)
    assert answer.base_offset == 3
    assert bench.append(b"c") == 5
    bench.settle()
    assert [[offset for offset, _ in batch] for batch in bench.batches()] == [[0], [1], [2], [3], [4]]
    assert bench.told == [1, 2, 3, 5]


def test_a_batch_does_not_grow_without_bound() -> None:
    bench = Bench()
    for _ in range(SHARED_RECORDS_MAX + 1):
        bench.append(b"key")
    bench.settle()
    assert [len(batch) for batch in bench.batches()] == [SHARED_RECORDS_MAX, 1]
    for _ in range(3):
        bench.journal.append_shared([(NOON_MS, b"key", bytes(200_000))])
    bench.settle()
    assert [len(batch) for batch in bench.batches()[2:]] == [2, 1]


def test_a_write_that_fails_loses_what_was_promised_and_says_so_once() -> None:
    bench = Bench()
    bench.append(b"a")
    bench.append(b"b")
    bench.files.failures[bench.files.operations + 1] = errno.EIO
    bench.settle()
    assert bench.told == ["lost"]
    assert bench.batches() == []


def test_a_disk_that_is_gone_is_noticed_whenever_it_goes() -> None:
    bench = Bench()
    bench.append(b"a")
    bench.leader.fail()
    bench.settle()
    assert bench.told == ["lost"]
    with pytest.raises(ProtocolError) as refused:
        bench.append(b"b")
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_what_was_promised_is_written_before_another_broker_leads() -> None:
    bench = Bench()
    bench.append(b"a")
    bench.leader.resign()
    assert bench.batches() == [[(0, b"a")]]
    assert bench.told == ["lost"], "whether it stays is for the next leader to know"
