"""Records of a batch against other implementations: Apache Kafka (recorded bytes), kafka-python and aiokafka."""

from __future__ import annotations

import json
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import LeaderEpoch, Offset, ProducerEpoch, ProducerId
from tidelog.wire.batch import check_produced_batch, is_crc_valid, read_header
from tidelog.wire.compression import Compression
from tidelog.wire.control import (
    ControlType,
    EndTransaction,
    build_end_transaction,
    build_quorum_control,
    read_control_type,
    read_end_transaction,
)
from tidelog.wire.messages.control_records import LeaderChangeMessage, LeaderChangeMessageVoter
from tidelog.wire.records import Record, build_batch, read_records, rebuild_batch

NOW = 1_700_000_000_000
RECORDED = Path(__file__).parents[2] / "data" / "record-batches" / "apache-kafka-4.2-batches.jsonl"
APACHE_KAFKA = {
    line["name"]: b64decode(line["batch"]) for line in map(json.loads, RECORDED.read_text("utf-8").splitlines())
}

# The records of BuildBatches.java.
EVERY_KIND = [
    Record(100, NOW, b"key", b"value"),
    Record(101, NOW - 250, None, b"no key, and earlier than the first"),
    Record(102, NOW + 70_000, b"no value", None),
    Record(
        103, NOW, b"", b"", (("name", b"content"), ("null", None), ("", b""), ("größe", b"\xff\x00"))
    ),
    Record(104, NOW + 1, None, None),
    Record(105, NOW + 2, b"long", b"0123456789" * 8000),
]  # fmt: skip
HERE = {"base_offset": Offset(100), "leader_epoch": LeaderEpoch(9)}


@pytest.mark.parametrize("name", ["gzip", "snappy", "lz4", "zstd", "idempotent", "transactional"])
def test_records_that_apache_kafka_encoded_are_read(name: str) -> None:
    assert read_records(APACHE_KAFKA[name]) == EVERY_KIND


def test_with_log_append_time_every_record_has_the_brokers_time() -> None:
    records = read_records(APACHE_KAFKA["log append time"])
    assert {record.timestamp for record in records} == {NOW + 5000}
    assert [record.key for record in records] == [record.key for record in EVERY_KIND]


def test_an_uncompressed_batch_is_byte_for_byte_apache_kafkas() -> None:
    records = [Record(0, NOW, b"key", b"value"), Record(0, NOW - 1, None, None)]
    assert build_batch(records, **HERE) == APACHE_KAFKA["uncompressed"]


@pytest.mark.parametrize("name", ["gzip", "snappy", "lz4", "zstd", "log append time", "idempotent", "transactional"])
def test_a_compressed_batch_has_apache_kafkas_header(name: str) -> None:
    theirs = read_header(APACHE_KAFKA[name])
    ours = build_batch(
        EVERY_KIND,
        **HERE,
        compression=Compression(theirs.compression),
        producer_id=ProducerId(theirs.producer_id),
        producer_epoch=ProducerEpoch(theirs.producer_epoch),
        base_sequence=theirs.base_sequence,
        is_transactional=name == "transactional",
        log_append_time_ms=NOW + 5000 if name == "log append time" else None,
    )
    assert ours[21:61] == APACHE_KAFKA[name][21:61]
    assert read_records(ours) == read_records(APACHE_KAFKA[name])


@pytest.mark.parametrize("name", ["commit", "abort"])
def test_transaction_markers_are_byte_for_byte_apache_kafkas(name: str) -> None:
    marker = EndTransaction(is_commit=name == "commit", coordinator_epoch=11)
    assert build_end_transaction(marker, ProducerId(4000), ProducerEpoch(3), NOW, **HERE) == APACHE_KAFKA[name]
    (record,) = read_records(APACHE_KAFKA[name])
    assert read_end_transaction(record) == marker
    assert read_header(APACHE_KAFKA[name]).is_control


def test_a_leader_change_is_byte_for_byte_apache_kafkas() -> None:
    voters = [LeaderChangeMessageVoter(1), LeaderChangeMessageVoter(2)]
    message = LeaderChangeMessage(version=0, leader_id=2, voters=voters, granting_voters=voters[1:])
    assert build_quorum_control([message], Offset(100), LeaderEpoch(9), NOW) == APACHE_KAFKA["leader change"]
    (record,) = read_records(APACHE_KAFKA["leader change"])
    assert read_control_type(record) is ControlType.LEADER_CHANGE


@pytest.mark.parametrize("key", [None, b"", b"\x00\x00\x00", b"\xff\xff\x00\x00"])
def test_a_control_record_without_a_readable_key_is_refused(key: bytes | None) -> None:
    with pytest.raises(ProtocolError):
        read_control_type(Record(0, NOW, key, b""))


def test_a_control_type_of_the_future_is_no_error() -> None:
    assert read_control_type(Record(0, NOW, b"\x00\x00\x00\x63", b"")) is None


def built_by(builder_class: Any, compression: Compression, records: list[Record]) -> bytes:
    builder = builder_class(
        magic=2,
        compression_type=compression,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 20,
    )
    for offset, record in enumerate(records):
        builder.append(offset, record.timestamp, record.key, record.value, list(record.headers))
    return bytes(builder.build())


def read_by(batch_class: Any, batch: bytes) -> list[Record]:
    decoded = batch_class(batch)
    assert decoded.validate_crc()
    return [
        Record(record.offset, record.timestamp, record.key, record.value, tuple(map(tuple, record.headers)))
        for record in decoded
    ]


# kafka-python needs packages for snappy and zstd that would do nothing else here.
BUILDERS = [(AiokafkaBuilder, codec) for codec in Compression] + [
    (KafkaPythonBuilder, codec) for codec in (Compression.NONE, Compression.GZIP, Compression.LZ4)
]
READERS = [(AiokafkaBatch, codec) for codec in Compression] + [
    (KafkaPythonBatch, codec) for codec in (Compression.NONE, Compression.GZIP, Compression.LZ4)
]
FROM_ZERO = [
    Record(i, record.timestamp, record.key, record.value, record.headers) for i, record in enumerate(EVERY_KIND)
]


@pytest.mark.parametrize(("builder_class", "codec"), BUILDERS)
def test_batches_of_python_clients_are_accepted_and_read(builder_class: Any, codec: Compression) -> None:
    batch = built_by(builder_class, codec, EVERY_KIND)
    assert check_produced_batch(memoryview(batch), 1 << 20).compression == codec
    assert read_records(batch) == FROM_ZERO


@pytest.mark.parametrize(("batch_class", "codec"), READERS)
def test_python_clients_read_our_batches(batch_class: Any, codec: Compression) -> None:
    assert read_by(batch_class, build_batch(EVERY_KIND, compression=codec)) == FROM_ZERO


def test_uncompressed_batches_are_byte_for_byte_kafka_pythons() -> None:
    ours, theirs = build_batch(EVERY_KIND), built_by(KafkaPythonBuilder, Compression.NONE, EVERY_KIND)
    assert ours[17:] == theirs[17:]  # Before the CRC there is only the leader epoch, which clients fill as they like.


def test_records_of_a_batch_in_the_middle_of_a_buffer_are_read() -> None:
    first, second = build_batch(EVERY_KIND[:2]), build_batch(EVERY_KIND, **HERE)
    assert read_records(first + second + b"cut off", len(first)) == EVERY_KIND


def test_a_cleaned_batch_keeps_offsets_range_and_producer() -> None:
    batch = APACHE_KAFKA["transactional"]
    header = read_header(batch)
    kept = [EVERY_KIND[1], EVERY_KIND[4]]
    cleaned = rebuild_batch(header, kept)
    after = read_header(cleaned)
    assert read_records(cleaned) == kept
    assert (after.base_offset, after.last_offset, after.records_count) == (100, 105, 2)
    assert (after.producer_id, after.producer_epoch, after.last_sequence) == (4000, 3, header.last_sequence)
    assert (after.is_transactional, after.compression, after.leader_epoch) == (True, Compression.ZSTD, 9)
    assert after.max_timestamp == NOW + 1


def test_a_cleaned_batch_carries_its_delete_horizon_and_the_same_timestamps() -> None:
    cleaned = rebuild_batch(read_header(APACHE_KAFKA["gzip"]), EVERY_KIND[2:4], delete_horizon_ms=NOW + 10**9)
    header = read_header(cleaned)
    assert (header.has_delete_horizon, header.base_timestamp) == (True, NOW + 10**9)
    assert read_records(cleaned) == EVERY_KIND[2:4]
    without = rebuild_batch(header, EVERY_KIND[2:3])
    assert not read_header(without).has_delete_horizon
    assert read_records(without) == EVERY_KIND[2:3]


def test_a_batch_of_which_nothing_is_kept_still_tells_its_offsets_and_producer() -> None:
    cleaned = rebuild_batch(read_header(APACHE_KAFKA["idempotent"]), [])
    header = read_header(cleaned)
    assert (len(cleaned), header.records_count, header.last_offset, header.last_sequence) == (61, 0, 105, 12)
    assert header.compression == Compression.NONE
    assert is_crc_valid(memoryview(cleaned), header)
    assert read_records(cleaned) == []


def test_a_flipped_bit_is_noticed_unless_the_crc_was_checked_before() -> None:
    batch = bytearray(build_batch(EVERY_KIND[:1]))
    batch[-2] ^= 1
    with pytest.raises(ProtocolError) as refused:
        read_records(batch)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
    assert read_records(batch, check_crc=False)[0].value == b"valud"
