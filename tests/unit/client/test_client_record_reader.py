"""From the bytes of a fetch to records."""

from __future__ import annotations

import pytest

from tidelog.client.core.record_reader import read_partition
from tidelog.model.errors import ProtocolError
from tidelog.model.ids import LeaderEpoch, Offset, PartitionIndex, ProducerEpoch, ProducerId, TopicName, TopicPartition
from tidelog.wire.compression import Compression
from tidelog.wire.control import EndTransaction, build_end_transaction
from tidelog.wire.messages.fetch import AbortedTransaction
from tidelog.wire.records import Record, build_batch

P0 = TopicPartition(TopicName("t"), PartitionIndex(0))


def batch(first: int, count: int, producer: int = -1, codec: Compression = Compression.NONE) -> bytes:
    return build_batch(
        [Record(0, 1000, None, b"%d" % (first + number)) for number in range(count)],
        base_offset=Offset(first),
        leader_epoch=LeaderEpoch(4),
        producer_id=ProducerId(producer),
        producer_epoch=ProducerEpoch(0),
        base_sequence=0 if producer >= 0 else -1,
        is_transactional=producer >= 0,
        compression=codec,
    )


def marker(offset: int, producer: int, *, commit: bool) -> bytes:
    return build_end_transaction(
        EndTransaction(commit, 0), ProducerId(producer), ProducerEpoch(0), 1000, base_offset=Offset(offset)
    )


def offsets(data: bytes, position: int, aborted: list[AbortedTransaction] | None = None) -> tuple[list[int], int]:
    read = read_partition(P0, data, Offset(position), aborted)
    return [record.offset for record in read.records], read.next_offset


@pytest.mark.req("K4", "A19")
def test_a_record_says_where_it_is_and_what_it_holds() -> None:
    data = build_batch(
        [Record(0, 55, b"k", b"v", (("h", b"1"), ("h", None)))], base_offset=Offset(7), leader_epoch=LeaderEpoch(4)
    )
    ((record,), _) = read_partition(P0, data, Offset(7))
    assert (record.topic, record.partition, record.offset, record.timestamp_ms) == ("t", 0, 7, 55)
    assert (record.key, record.value, record.headers) == (b"k", b"v", (("h", b"1"), ("h", None)))
    assert (record.leader_epoch, record.is_log_append_time) == (4, False)


@pytest.mark.parametrize("codec", list(Compression))
def test_records_before_the_position_are_left_out(codec: Compression) -> None:
    data = batch(0, 5, codec=codec) + batch(5, 5, codec=codec)
    assert offsets(data, 3) == ([3, 4, 5, 6, 7, 8, 9], 10)
    assert offsets(data, 5) == ([5, 6, 7, 8, 9], 10)


def test_a_batch_that_is_cut_off_is_read_next_time() -> None:
    data = batch(0, 5) + batch(5, 5)
    assert offsets(data[:-1], 0) == ([0, 1, 2, 3, 4], 5)


def test_nothing_whole_leaves_the_position_where_it_is() -> None:
    assert offsets(batch(0, 5)[:-1], 3) == ([], 3)
    assert offsets(b"", 3) == ([], 3)


def test_a_transaction_marker_is_passed_over() -> None:
    data = batch(0, 2, producer=1) + marker(2, 1, commit=True)
    assert offsets(data, 0) == ([0, 1], 3)
    assert offsets(data, 2) == ([], 3)


def test_records_of_an_aborted_transaction_do_not_count_for_readers_of_committed_ones() -> None:
    data = (
        batch(0, 2, producer=1)
        + batch(2, 1, producer=2)
        + batch(3, 1)
        + marker(4, 1, commit=False)
        + batch(5, 1, producer=1)
        + marker(6, 1, commit=True)
        + marker(7, 2, commit=True)
    )
    aborted = [AbortedTransaction(1, 0)]
    assert offsets(data, 0, aborted) == ([2, 3, 5], 8)
    assert offsets(data, 0) == ([0, 1, 2, 3, 5], 8)


def test_the_same_producer_may_abort_twice() -> None:
    data = (
        batch(0, 1, producer=1)
        + marker(1, 1, commit=False)
        + batch(2, 1, producer=1)
        + marker(3, 1, commit=False)
        + batch(4, 1, producer=1)
    )
    aborted = [AbortedTransaction(1, 2), AbortedTransaction(1, 0)]
    assert offsets(data, 0, aborted) == ([4], 5)


def test_damage_is_not_read_over() -> None:
    data = bytearray(batch(0, 2))
    data[-1] ^= 1
    with pytest.raises(ProtocolError, match="corrupt"):
        read_partition(P0, bytes(data), Offset(0))
