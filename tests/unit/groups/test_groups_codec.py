"""The bytes here were written by Apache Kafka 4.2's own GroupCoordinatorRecordSerde."""

from __future__ import annotations

import pytest

from tidelog.groups.codec import KINDS, decode_record, encode_key, encode_value
from tidelog.groups.partitioning import java_string_hash, partition_for
from tidelog.groups.records import GroupRecord, group_metadata, offset_commit, offset_tombstone
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import ProducerEpoch, ProducerId
from tidelog.wire.messages.group_records import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitValue,
)

NOW_MS = 1_700_000_000_000
MEMBER = MemberMetadata("a", None, "c", "/h", 60_000, 10_000, b"\x01\x02", b"\x03")

APACHE_KAFKA = {
    "an offset": (
        offset_commit("readers", "orders", 3, OffsetCommitValue(42, 7, "note", NOW_MS)),
        "000100077265616465727300066f726465727300000003",
        "0004000000000000002a00000007056e6f74650000018bcfe5680000",
    ),
    "an offset that expires": (
        offset_commit("readers", "orders", 3, OffsetCommitValue(42, -1, "", NOW_MS, NOW_MS + 1000)),
        "000100077265616465727300066f726465727300000003",
        "0001000000000000002a00000000018bcfe568000000018bcfe56be8",
    ),
    "a deleted offset": (
        offset_tombstone("readers", "orders", 3),
        "000100077265616465727300066f726465727300000003",
        None,
    ),
    "a classic group": (
        group_metadata("readers", GroupMetadataValue("consumer", 5, "range", "a", NOW_MS, [MEMBER])),
        "0002000772656164657273",
        "00030008636f6e73756d657200000005000572616e67650001610000018bcfe5680000000001000161ffff00016300022f68"
        "0000ea60000027100000000201020000000103",
    ),
    "a deleted group": (group_metadata("readers", None), "0002000772656164657273", None),
    "a group epoch": (
        GroupRecord(ConsumerGroupMetadataKey("readers"), ConsumerGroupMetadataValue(9, 77)),
        "0003000772656164657273",
        "000000000009010008000000000000004d",
    ),
    "an assignment epoch": (
        GroupRecord(ConsumerGroupTargetAssignmentMetadataKey("readers"), ConsumerGroupTargetAssignmentMetadataValue(9)),
        "0006000772656164657273",
        "00000000000900",
    ),
}


@pytest.mark.parametrize(("record", "key", "value"), APACHE_KAFKA.values(), ids=APACHE_KAFKA)
def test_records_have_apache_kafkas_bytes(record: GroupRecord, key: str, value: str | None) -> None:
    assert encode_key(record).hex() == key
    encoded = encode_value(record)
    assert (None if encoded is None else encoded.hex()) == value


@pytest.mark.parametrize(("record", "key", "value"), APACHE_KAFKA.values(), ids=APACHE_KAFKA)
def test_records_are_read_as_they_were_written(record: GroupRecord, key: str, value: str | None) -> None:
    producer = ProducerId(7), ProducerEpoch(2)

    read = decode_record(bytes.fromhex(key), None if value is None else bytes.fromhex(value), *producer)

    assert read == GroupRecord(record.key, record.value, *producer)


def test_each_kind_of_record_has_the_number_that_its_key_says() -> None:
    for kind, (key, value, _) in KINDS.items():
        assert kind == key.API_KEY
        assert kind == value.API_KEY or kind == 0


def test_a_kind_that_we_do_not_know_is_skipped() -> None:
    assert decode_record(b"\x00\x0a\x00\x07readers", b"\x00\x00") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"\x00\x00"),
        (b"\x00", None),
        (b"\x00\x02\x00\x40readers", None),
        (b"\x00\x02\x00\x07readers", b"\x00"),
        (b"\x00\x02\x00\x07readers", b"\x00\x63"),
        (b"\x00\x02\x00\x07readers", b"\x00\x03\x00"),
    ],
)
def test_bytes_that_are_not_what_they_say_are_called_corrupt(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(ProtocolError) as raised:
        decode_record(key, value)

    assert raised.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize(
    ("group_id", "code", "of_50", "of_7"),
    [
        ("readers", 1080410128, 28, 0),
        ("", 0, 0, 0),
        ("a", 97, 47, 6),
        ("é中😀", 27946695, 45, 0),
        ("console-consumer-12345", 158455506, 6, 6),
        ("polygenelubricants", -(2**31), 0, 0),
        ("orders-billing", -2070039661, 11, 4),
        ("negative hash group 7", 41469903, 3, 6),
    ],
)
def test_a_group_lives_in_the_partition_that_apache_kafka_would_choose(
    group_id: str, code: int, of_50: int, of_7: int
) -> None:
    assert java_string_hash(group_id) == code
    assert (partition_for(group_id, 50), partition_for(group_id, 7)) == (of_50, of_7)
