"""Records of `__transaction_state`: the bytes of Apache Kafka, both ways."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.transaction_desk import partition
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import ProducerEpoch, ProducerId
from tidelog.transactions.codec import decode_record, encode_key, encode_value
from tidelog.transactions.records import TransactionRecord
from tidelog.transactions.states import State
from tidelog.transactions.transaction import Transaction
from tidelog.wire.compiler import encode
from tidelog.wire.messages.transaction_records import PartitionsSchema, TransactionLogKey, TransactionLogValue

INT64 = st.integers(-1, 2**63 - 1)
EPOCHS = st.integers(-1, 2**15 - 1)
TRANSACTIONS = st.builds(
    Transaction,
    producer_id=INT64.map(ProducerId),
    producer_epoch=EPOCHS.map(ProducerEpoch),
    timeout_ms=st.integers(1, 2**31 - 1),
    state=st.sampled_from([state for state in State if state is not State.EMPTY]),
    partitions=st.frozensets(st.builds(partition, st.integers(0, 99), st.sampled_from(["a", "ü", "__offsets"]))),
    start_ms=INT64,
    updated_ms=INT64,
    previous_producer_id=INT64.map(ProducerId),
    next_producer_id=INT64.map(ProducerId),
    next_producer_epoch=EPOCHS.map(ProducerEpoch),
    client_version=st.integers(0, 2),
)


@given(transactional_id=st.text(min_size=1), transaction=TRANSACTIONS)
def test_what_is_written_is_read_again(transactional_id: str, transaction: Transaction) -> None:
    record = TransactionRecord(transactional_id, transaction)
    assert decode_record(encode_key(record), encode_value(record)) == record


def test_the_bytes_are_those_of_apache_kafka() -> None:
    transaction = Transaction(
        ProducerId(5), ProducerEpoch(2), 60_000, State.ONGOING, frozenset({partition(1), partition(0)}), 7, 8
    )
    record = TransactionRecord("id", transaction)
    assert encode_key(record).hex() == "0000" + "0002" + b"id".hex()
    assert encode_value(record) is not None
    assert (
        (encode_value(record) or b"").hex()
        == (
            "0001"  # version 1
            "0000000000000005"  # producer id
            "0002"  # epoch
            "0000ea60"  # timeout
            "01"  # Ongoing
            "02" + "07" + b"orders".hex() + "03" + "00000000" + "00000001" + "00"  # one topic with two partitions
            "0000000000000008"  # last update
            "0000000000000007"  # start
            "00"  # no tagged fields
        )
    )


def test_version_0_is_read_too() -> None:
    value = bytes.fromhex("0000000000000000000500020000ea6004ffffffff00000000000000080000000000000007")
    record = decode_record(bytes.fromhex("00000002") + b"id", value)
    assert record is not None and record.transaction is not None
    assert record.transaction.state is State.COMPLETE_COMMIT
    assert record.transaction.partitions == frozenset()


def test_a_transaction_that_has_not_begun_has_null_for_partitions() -> None:
    empty = TransactionRecord("id", Transaction(ProducerId(5), ProducerEpoch(0), 1))
    value = encode_value(empty) or b""
    assert value[17] == 0  # the compact form of null
    assert decode_record(encode_key(empty), value) == empty


def test_a_tombstone_forgets_an_id() -> None:
    record = TransactionRecord("id", None)
    assert encode_value(record) is None
    assert decode_record(encode_key(record), None) == record


def test_a_kind_that_a_newer_broker_writes_is_passed_over() -> None:
    assert decode_record(bytes.fromhex("0001") + b"anything", b"") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b""),
        (b"\x00", b""),
        (bytes.fromhex("00000009") + b"short", b""),
        (bytes.fromhex("00000002") + b"id", b"\x00"),
        (bytes.fromhex("00000002") + b"id", bytes.fromhex("0007")),
        (bytes.fromhex("00000002") + b"id", bytes.fromhex("000000000005")),
        (
            bytes.fromhex("00000002") + b"id",
            bytes.fromhex("0000000000000000000500020000ea6063ffffffff" + "00" * 16),
        ),
    ],
)
def test_damaged_bytes_are_called_corrupt(key: bytes | None, value: bytes) -> None:
    with pytest.raises(ProtocolError) as refused:
        decode_record(key, value)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


@given(transactional_id=st.text(min_size=1), transaction=TRANSACTIONS)
def test_what_is_written_by_hand_is_what_the_compiled_codec_writes(
    transactional_id: str, transaction: Transaction
) -> None:
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(transaction.partitions):
        topics.setdefault(topic, []).append(index)
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.producer_epoch,
        next_producer_epoch=transaction.next_producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state.number,
        transaction_partitions=[PartitionsSchema(topic, indexes) for topic, indexes in topics.items()],
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
        client_transaction_version=transaction.client_version,
    )
    record = TransactionRecord(transactional_id, transaction)
    assert encode_value(record) == b"\0\1" + encode(value, 1)
    assert encode_key(record) == b"\0\0" + encode(TransactionLogKey(transactional_id), 0)
