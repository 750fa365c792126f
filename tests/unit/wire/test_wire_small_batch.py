"""Batches of one record made in a few steps: the same bytes as the general way makes, and read the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.log.markers import read_marker
from tidelog.model.ids import LeaderEpoch, Offset, ProducerEpoch, ProducerId
from tidelog.wire.compression import Compression
from tidelog.wire.control import CONTROL_KEY, END_TXN_VALUE, EndTransaction, build_end_transaction
from tidelog.wire.records import Record, build_batch
from tidelog.wire.small_batch import build_one_record_batch, build_plain_batch, read_usual_marker

NOW = 1_700_000_000_000


@given(key=st.binary(max_size=200), value=st.none() | st.binary(max_size=20_000))
def test_a_batch_of_one_record_is_what_the_general_way_makes(key: bytes, value: bytes | None) -> None:
    assert build_one_record_batch(key, value, NOW) == build_batch([Record(0, NOW, key, value)])


def general_marker(kind: int, coordinator_epoch: int, compression: Compression = Compression.NONE) -> bytes:
    record = Record(0, NOW, CONTROL_KEY.pack(0, kind), END_TXN_VALUE.pack(0, coordinator_epoch))
    return build_batch(
        [record],
        base_offset=Offset(9),
        leader_epoch=LeaderEpoch(3),
        compression=compression,
        producer_id=ProducerId(2**40),
        producer_epoch=ProducerEpoch(7),
        is_transactional=True,
        is_control=True,
    )


@given(is_commit=st.booleans(), coordinator_epoch=st.integers(-1, 2**31 - 1))
def test_a_marker_is_what_the_general_way_makes_and_is_read_again(is_commit: bool, coordinator_epoch: int) -> None:
    marker = EndTransaction(is_commit, coordinator_epoch)
    batch = build_end_transaction(
        marker,
        ProducerId(2**40),
        ProducerEpoch(7),
        NOW,
        base_offset=Offset(9),
        leader_epoch=LeaderEpoch(3),
    )
    assert batch == general_marker(int(is_commit), coordinator_epoch)
    assert read_usual_marker(batch) == marker == read_marker(batch)


@pytest.mark.parametrize("kind", [2, 3, 700])
def test_a_control_batch_of_another_kind_is_no_marker(kind: int) -> None:
    assert read_usual_marker(general_marker(kind, 1)) is None


def test_a_marker_that_is_written_otherwise_is_left_to_the_general_way() -> None:
    batch = general_marker(1, 5, Compression.GZIP)
    assert read_usual_marker(batch) is None
    assert read_marker(batch) == EndTransaction(True, 5)


@given(
    st.lists(
        st.tuples(st.integers(0, 10**6), st.binary(max_size=200), st.none() | st.binary(max_size=20_000)),
        min_size=1,
        max_size=70,
    )
)
def test_a_plain_batch_is_what_the_general_way_makes(given_records: list[tuple[int, bytes, bytes | None]]) -> None:
    records = [(NOW + later, key, value) for later, key, value in sorted(given_records, key=lambda record: record[0])]
    expected = build_batch([Record(0, timestamp, key, value) for timestamp, key, value in records])
    assert build_plain_batch(records) == expected
