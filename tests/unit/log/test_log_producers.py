from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.logs import NOON_MS, PARTITION, append, batch_of, new_log, reopened, stage
from tidelog.env.clock import SimulatedClock
from tidelog.env.files import RealFiles
from tidelog.log.config import DAY_MS, LogConfig
from tidelog.log.errors import CorruptLog
from tidelog.log.partition import PartitionLog
from tidelog.log.producer_entry import ProducedBatch, ProducerEntry
from tidelog.log.producer_snapshots import decode_snapshot, encode_snapshot
from tidelog.log.producers import Duplicate, Producers
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import LeaderEpoch, Offset, ProducerEpoch, ProducerId
from tidelog.wire.batch import TRANSACTIONAL_FLAG, read_header
from tidelog.wire.batch_run import BatchRun
from tidelog.wire.control import EndTransaction, build_end_transaction

ID = ProducerId(7)


def header_of(sequence: int, count: int = 1, *, epoch: int = 0, is_transactional: bool = False):  # type: ignore[no-untyped-def]
    values = [b"x"] * count
    return read_header(batch_of(values, producer=(ID, epoch, sequence), is_transactional=is_transactional))


def take(producers: Producers, sequence: int, base: int, count: int = 1, *, epoch: int = 0) -> None:
    header = header_of(sequence, count, epoch=epoch)
    assert producers.check(header) is None
    producers.staged(header, Offset(base))


def refused(producers: Producers, sequence: int, *, epoch: int = 0) -> ErrorCode:
    with pytest.raises(ProtocolError) as error:
        producers.check(header_of(sequence, epoch=epoch))
    return error.value.code


@pytest.mark.req("J3")
def test_sequences_follow_each_other_and_a_gap_is_refused() -> None:
    producers = Producers()
    take(producers, 0, base=0, count=3)
    take(producers, 3, base=3)

    assert refused(producers, 5) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    take(producers, 4, base=4)


@pytest.mark.req("J3")
def test_a_sequence_begins_again_at_0_after_the_largest() -> None:
    producers = Producers()
    take(producers, 2**31 - 2, base=0, count=3)

    entry = producers.entry(ID)
    assert entry is not None
    assert entry.last_sequence == 0
    assert producers.check(header_of(2**31 - 2, 3)) == Duplicate(Offset(0), Offset(2), NOON_MS)
    take(producers, 1, base=3)


def test_a_sequence_that_ends_at_the_largest_is_followed_by_0() -> None:
    producers = Producers()
    take(producers, 2**31 - 1, base=0)
    take(producers, 0, base=1)


@pytest.mark.req("J4")
def test_each_of_the_last_five_batches_is_recognised_when_it_comes_again() -> None:
    producers = Producers()
    for number in range(8):
        take(producers, 2 * number, base=100 + 2 * number, count=2)

    for number in range(3, 8):
        duplicate = producers.check(header_of(2 * number, 2))
        assert duplicate == Duplicate(Offset(100 + 2 * number), Offset(101 + 2 * number), NOON_MS)
    assert refused(producers, 4) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(producers, 6) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "the same start with another length"


@pytest.mark.req("J3")
def test_an_unknown_producer_may_start_with_any_sequence() -> None:
    take(Producers(), 1234, base=0)


def test_an_older_epoch_is_fenced_and_a_newer_one_starts_with_0() -> None:
    producers = Producers()
    take(producers, 0, base=0, epoch=3)

    assert refused(producers, 1, epoch=2) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert refused(producers, 1, epoch=4) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    take(producers, 0, base=1, epoch=4)
    assert refused(producers, 1, epoch=3) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_what_could_not_be_written_is_as_if_it_never_came() -> None:
    producers = Producers()
    take(producers, 0, base=0)
    producers.written()
    take(producers, 1, base=1)
    take(producers, 2, base=2)
    producers.not_written(Offset(1))

    assert refused(producers, 2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    take(producers, 1, base=1)


@given(st.lists(st.tuples(st.integers(1, 3), st.sampled_from([0, 0, 0, 1, 2])), max_size=60), st.integers(0, 60))
def test_whatever_could_not_be_written_leaves_every_producer_as_it_was(steps: list[tuple[int, int]], kept: int) -> None:
    """Step by step a run of so many batches, a marker that ends a transaction (1), or a batch that begins one (2)."""
    producers = Producers()
    epoch = sequence = end = 0
    is_open = False
    for number, (count, kind) in enumerate(steps):
        if number <= kept:
            producers.written()
            producers.written_end = Offset(end)
            expected, first_lost = producers.entries(), Offset(end)
        if kind == 1:
            epoch, sequence, is_open = epoch + 1, 0, False
            producers.staged_marker(header_of(0, epoch=epoch), Offset(end), EndTransaction(True, 1))
            end += 1
            continue
        is_open = is_open or kind == 2
        run = BatchRun(memoryview(b""), 2, NOON_MS + number)
        run.record_counts, run.max_timestamps = [2] * count, [NOON_MS + number] * count
        run.producer_id, run.producer_epoch, run.base_sequence = ID, epoch, sequence
        run.attributes = TRANSACTIONAL_FLAG if is_open else 0
        begin, end = end, end + 2 * count
        producers.staged_run(
            run, Offset(begin), Offset(end), run.record_counts, run.max_timestamps, producers.going_on(run)
        )
        sequence += 2 * count
    if kept < len(steps):
        producers.not_written(first_lost)
        lost = producers.entries()
        assert lost == expected
        assert [entry.last_sequence for entry in lost] == [entry.last_sequence for entry in expected]


@pytest.mark.parametrize("lost", [1, 4, 5, 6, 10, 11, 12, 16, 17, 30, 60])
def test_however_many_runs_are_lost_at_once_the_five_batches_before_them_are_remembered(lost: int) -> None:
    for written in range(40):
        producers = Producers()
        for number in range(written):
            take(producers, number, base=number)
            producers.written()
            producers.written_end = Offset(number + 1)
        expected = producers.entries()
        for number in range(written, written + lost):
            take(producers, number, base=number)
        producers.not_written(Offset(written))
        assert producers.entries() == expected
        assert not written or producers.check(header_of(max(written - 5, 0))) is not None, "a retry is known again"


def test_a_batch_does_not_take_the_place_of_an_unknown_producers_first_one_that_could_not_be_written() -> None:
    producers = Producers()
    take(producers, 0, base=0)
    take(producers, 1, base=1)
    producers.not_written(Offset(0))

    assert refused(producers, 1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    take(producers, 0, base=0)
    take(producers, 1, base=1)


def test_a_silent_producer_is_forgotten_unless_its_transaction_is_open() -> None:
    producers = Producers()
    take(producers, 0, base=0)
    producers.expire(NOON_MS + DAY_MS - 1, DAY_MS)
    assert len(producers) == 1
    producers.expire(NOON_MS + DAY_MS, DAY_MS)
    assert len(producers) == 0

    producers.staged(header_of(0, is_transactional=True), Offset(5))
    producers.expire(NOON_MS + 10 * DAY_MS, DAY_MS)
    assert len(producers) == 1


# --- snapshots --------------------------------------------------------------------------------------------------------


def test_a_snapshot_brings_every_producer_back_with_its_five_batches() -> None:
    batches = tuple(ProducedBatch(10 + number, Offset(50 + number), 0, NOON_MS + number) for number in range(5))
    entries = [
        ProducerEntry(ID, ProducerEpoch(2), batches, NOON_MS + 4, 3, Offset(40)),
        ProducerEntry(ProducerId(8), ProducerEpoch(0), (), NOON_MS, 1),
        ProducerEntry(ProducerId(9), ProducerEpoch(1), batches[:1], NOON_MS),
    ]

    assert decode_snapshot(encode_snapshot(entries), "x") == entries
    assert decode_snapshot(encode_snapshot([]), "x") == []


def test_any_changed_byte_of_a_snapshot_is_noticed() -> None:
    good = encode_snapshot([ProducerEntry(ID, ProducerEpoch(2), (), NOON_MS)])
    for position in range(len(good)):
        bad = bytearray(good)
        bad[position] ^= 1
        with pytest.raises(CorruptLog):
            decode_snapshot(bytes(bad), "x")
    for length in range(len(good)):
        with pytest.raises(CorruptLog):
            decode_snapshot(good[:length], "x")


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    config = LogConfig(segment_bytes=2000)
    return new_log(RealFiles(), SimulatedClock(NOON_MS), str(tmp_path / str(PARTITION)), config)


@pytest.mark.req("J4")
@pytest.mark.parametrize("clean", [True, False])
def test_a_retry_is_recognised_after_a_restart(log: PartitionLog, clean: bool) -> None:
    for sequence in range(8):
        stage(log, batch_of([b"x" * 300], producer=(ID, 0, sequence)))
    log.write_staged()
    assert len(log.segments) > 1
    if clean:
        log.close()
    again = reopened(log, clean=clean)

    for sequence in range(3, 8):
        assert again.producers.check(header_of(sequence)) == Duplicate(Offset(sequence), Offset(sequence), NOON_MS)
    assert refused(again.producers, 9) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert stage(again, batch_of([b"next"], producer=(ID, 0, 8))) == 8


def test_after_a_clean_stop_producers_come_from_the_snapshot_alone(log: PartitionLog) -> None:
    stage(log, batch_of([b"x"], producer=(ID, 0, 0)))
    log.write_staged()
    log.close()
    snapshot = Path(log.directory, "00000000000000000001.snapshot")
    snapshot.write_bytes(encode_snapshot([ProducerEntry(ProducerId(99), ProducerEpoch(0), (), NOON_MS)]))

    again = reopened(log, clean=True)
    assert again.producers.entry(ID) is None
    assert again.producers.entry(ProducerId(99)) is not None

    snapshot.write_bytes(b"\0" * 20)
    again = reopened(log, clean=True)
    assert again.producers.entry(ID) is not None, "a snapshot that is no good is made again from the batches"


# --- transactions -----------------------------------------------------------------------------------------------------


def transact(log: PartitionLog, producer: int, sequence: int) -> Offset:
    base = stage(log, batch_of([b"t"], producer=(producer, 0, sequence), is_transactional=True))
    log.write_staged()
    return base


def end(log: PartitionLog, producer: int, *, commit: bool, epoch: int = 0) -> Offset:
    marker = build_end_transaction(EndTransaction(commit, 5), ProducerId(producer), ProducerEpoch(epoch), NOON_MS)
    view = memoryview(bytearray(marker))
    base = log.stage(read_header(view), view, LeaderEpoch(0))
    log.write_staged()
    return base


def test_readers_of_committed_records_stop_at_the_first_open_transaction(log: PartitionLog) -> None:
    append(log, b"plain")
    transact(log, 7, 0)
    transact(log, 8, 0)
    assert log.last_stable_offset(log.end_offset) == 1

    assert end(log, 7, commit=True) == 3
    assert log.last_stable_offset(log.end_offset) == 1, "the marker may still be lost"
    log.producers.replicated_up_to(log.end_offset)
    assert log.last_stable_offset(log.end_offset) == 2
    end(log, 8, commit=False)
    log.producers.replicated_up_to(log.end_offset)
    assert log.last_stable_offset(log.end_offset) == 5
    assert log.last_stable_offset(Offset(4)) == 4


def test_aborted_transactions_are_noted_and_survive_a_crash_of_the_process(log: PartitionLog) -> None:
    transact(log, 7, 0)
    transact(log, 8, 0)
    end(log, 7, commit=False)
    end(log, 8, commit=True)
    for number in range(10):
        append(log, b"%d" % number * 300)
    transact(log, 7, 1)
    end(log, 7, commit=False)
    expected = [(7, 0, 2, 1), (7, 14, 15, 16)]
    assert len(log.segments) > 1

    assert log.aborted_transactions(Offset(0), log.end_offset) == expected
    assert log.aborted_transactions(Offset(3), Offset(14)) == []
    Path(log.directory, "00000000000000000000.txnindex").unlink()
    again = reopened(log, clean=False)
    assert again.aborted_transactions(Offset(0), again.end_offset) == expected
    again.producers.replicated_up_to(again.end_offset)
    assert again.last_stable_offset(again.end_offset) == again.end_offset


def test_an_open_transaction_is_open_after_a_restart(log: PartitionLog) -> None:
    append(log, b"plain")
    transact(log, 7, 0)
    log.close()
    again = reopened(log, clean=True)

    assert again.last_stable_offset(again.end_offset) == 1
    with pytest.raises(ProtocolError) as error:
        again.producers.check(header_of(1))
    assert error.value.code == ErrorCode.INVALID_TXN_STATE
