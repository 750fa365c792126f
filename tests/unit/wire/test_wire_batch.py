"""The header of a record batch, and every reason for which a produced batch is refused."""

from __future__ import annotations

import pytest

from harness.bad_batches import MAX_MESSAGE_BYTES, NOW, REFUSED, changed, made_by_aiokafka
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import LeaderEpoch, Offset
from tidelog.wire.batch import (
    HEADER_BYTES,
    BatchHeader,
    check_produced_batch,
    check_timestamp_range,
    is_crc_valid,
    iter_headers,
    read_header,
    write_base_offset_and_epoch,
    write_log_append_time,
)
from tidelog.wire.crc import crc32c


def test_the_crc_is_castagnolis_and_reads_memoryviews() -> None:
    assert crc32c(memoryview(b"123456789")) == 0xE3069283


def test_a_batch_of_another_library_is_accepted_and_read_field_by_field() -> None:
    batch = made_by_aiokafka(3, producer_id=4000, sequence=17)
    header = check_produced_batch(memoryview(batch), MAX_MESSAGE_BYTES)
    assert header == BatchHeader(
        base_offset=0,
        batch_length=len(batch) - 12,
        leader_epoch=header.leader_epoch,
        magic=2,
        crc=crc32c(batch[21:]),
        attributes=0,
        last_offset_delta=2,
        base_timestamp=NOW,
        max_timestamp=NOW + 2,
        producer_id=4000,
        producer_epoch=0,
        base_sequence=17,
        records_count=3,
    )
    assert (header.size_bytes, header.last_offset, header.next_offset, header.last_sequence) == (len(batch), 2, 3, 19)


@pytest.mark.parametrize(
    ("base_sequence", "last_offset_delta", "last_sequence"),
    [(0, 0, 0), (5, 4, 9), (2**31 - 1, 0, 2**31 - 1), (2**31 - 1, 1, 0), (2**31 - 3, 5, 2), (-1, 7, -1)],
)
def test_sequences_wrap_around_to_zero(base_sequence: int, last_offset_delta: int, last_sequence: int) -> None:
    header = read_header(changed(base_sequence=base_sequence, last_offset_delta=last_offset_delta))
    assert header.last_sequence == last_sequence


@pytest.mark.parametrize(
    ("attributes", "flag"),
    [(0x08, "is_log_append_time"), (0x10, "is_transactional"), (0x20, "is_control"), (0x40, "has_delete_horizon")],
)
def test_each_attribute_bit_is_one_flag(attributes: int, flag: str) -> None:
    flags = ["is_log_append_time", "is_transactional", "is_control", "has_delete_horizon"]
    header = read_header(changed(attributes=attributes | 3))
    assert [name for name in flags if getattr(header, name)] == [flag]
    assert header.compression == 3


@pytest.mark.parametrize("case", REFUSED)
def test_a_bad_batch_gets_the_code_that_kafka_gives(case: str) -> None:
    with pytest.raises(ProtocolError) as refused:
        check_produced_batch(memoryview(REFUSED[case].make()), MAX_MESSAGE_BYTES)
    assert refused.value.code is REFUSED[case].code
    assert refused.value.message


def test_a_batch_of_exactly_the_largest_size_is_accepted() -> None:
    batch = made_by_aiokafka()
    assert check_produced_batch(memoryview(batch), len(batch)).size_bytes == len(batch)
    with pytest.raises(ProtocolError):
        check_produced_batch(memoryview(batch), len(batch) - 1)


def test_size_is_judged_before_the_crc() -> None:
    batch = made_by_aiokafka(value=b"x" * 2000)
    batch[-1] ^= 1
    with pytest.raises(ProtocolError) as refused:
        check_produced_batch(memoryview(batch), MAX_MESSAGE_BYTES)
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_every_single_flipped_bit_behind_the_crc_is_noticed() -> None:
    batch = made_by_aiokafka()
    for position in range(17, len(batch)):
        for bit in range(8):
            batch[position] ^= 1 << bit
            with pytest.raises(ProtocolError):
                check_produced_batch(memoryview(batch), MAX_MESSAGE_BYTES)
            batch[position] ^= 1 << bit
    assert check_produced_batch(memoryview(batch), MAX_MESSAGE_BYTES)


def test_offset_and_epoch_are_stamped_without_touching_what_the_crc_covers() -> None:
    batch = made_by_aiokafka(2)
    before = bytes(batch[17:])
    write_base_offset_and_epoch(memoryview(batch), Offset(2**40), LeaderEpoch(7))
    header = read_header(batch)
    assert (header.base_offset, header.leader_epoch, header.last_offset) == (2**40, 7, 2**40 + 1)
    assert bytes(batch[17:]) == before
    assert is_crc_valid(memoryview(batch), header)


def test_log_append_time_renews_the_crc() -> None:
    batch = made_by_aiokafka(2)
    header = write_log_append_time(memoryview(batch), NOW + 5000)
    assert header == read_header(batch)
    assert (header.is_log_append_time, header.max_timestamp, header.base_timestamp) == (True, NOW + 5000, NOW)
    assert is_crc_valid(memoryview(batch), header)


def test_headers_are_iterated_up_to_a_batch_that_is_cut_off() -> None:
    batches = [made_by_aiokafka(count) for count in (1, 2, 3)]
    buffer = b"".join(batches)
    positions = [0, len(batches[0]), len(batches[0]) + len(batches[1])]
    found = list(iter_headers(buffer))
    assert [(position, header.records_count) for position, header in found] == list(
        zip(positions, (1, 2, 3), strict=True)
    )
    for cut in (positions[2], positions[2] + 5, positions[2] + HEADER_BYTES, len(buffer) - 1):
        assert list(iter_headers(buffer[:cut])) == found[:2]


@pytest.mark.parametrize("broken", [changed(magic=1), changed(batch_length=48), bytes(100)])
def test_iterating_stops_with_an_error_at_bytes_that_are_no_batch(broken: bytes) -> None:
    headers = iter_headers(bytes(made_by_aiokafka()) + bytes(broken))
    assert next(headers)[0] == 0
    with pytest.raises(ProtocolError) as refused:
        next(headers)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("after_ms", [0, -10, 20, None])
def test_timestamps_within_the_range_are_accepted(after_ms: int | None) -> None:
    timestamp = -1 if after_ms is None else NOW + after_ms
    header = read_header(changed(base_timestamp=timestamp, max_timestamp=timestamp))
    check_timestamp_range(header, NOW, before_max_ms=10, after_max_ms=20)


@pytest.mark.parametrize("field", ["base_timestamp", "max_timestamp"])
@pytest.mark.parametrize("after_ms", [-11, 21])
def test_timestamps_too_far_from_the_clock_are_refused(field: str, after_ms: int) -> None:
    header = read_header(changed(**{"base_timestamp": NOW, "max_timestamp": NOW, field: NOW + after_ms}))
    with pytest.raises(ProtocolError) as refused:
        check_timestamp_range(header, NOW, before_max_ms=10, after_max_ms=20)
    assert refused.value.code is ErrorCode.INVALID_TIMESTAMP
