"""Batches of known forms: the same bytes as those that are encoded from the start."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from harness.transaction_desk import partition
from tidelog.model.ids import ProducerEpoch, ProducerId
from tidelog.transactions.batch_form import BatchForm
from tidelog.transactions.codec import encode_key, encode_value
from tidelog.transactions.records import TransactionRecord
from tidelog.transactions.states import State
from tidelog.transactions.transaction import Transaction
from tidelog.wire.small_batch import build_one_record_batch

IDS = st.sampled_from([-1, 0, 7, 2**63 - 1]).map(ProducerId)
EPOCHS = st.integers(-1, 2**15 - 1).map(ProducerEpoch)
TIMES = st.integers(-1, 2**63 - 1)
TRANSACTIONS = st.builds(
    Transaction,
    producer_id=IDS,
    producer_epoch=EPOCHS,
    timeout_ms=st.integers(1, 2**31 - 1),
    state=st.sampled_from(list(State)),
    partitions=st.frozensets(st.builds(partition, st.integers(0, 2), st.sampled_from(["a", "ü"])), min_size=1),
    start_ms=TIMES,
    updated_ms=TIMES,
    previous_producer_id=IDS,
    next_producer_id=IDS,
    next_producer_epoch=st.sampled_from([-1, 3]).map(ProducerEpoch),
    client_version=st.integers(0, 2),
)


def whole(record: TransactionRecord, transaction: Transaction) -> bytearray:
    return build_one_record_batch(encode_key(record), encode_value(record), transaction.updated_ms)


@given(st.text(min_size=1, max_size=200), TRANSACTIONS, TRANSACTIONS)
def test_a_form_gives_the_bytes_that_an_encoder_gives_or_nothing(
    transactional_id: str, seen: Transaction, following: Transaction
) -> None:
    form = BatchForm(TransactionRecord(transactional_id, seen), seen)
    batch = form.batch(following)
    assert batch is None or batch == whole(TransactionRecord(transactional_id, following), following)
    assert form.first() == form.batch(seen) == whole(TransactionRecord(transactional_id, seen), seen)


@given(TRANSACTIONS, EPOCHS, TIMES, TIMES, st.sampled_from(list(State)))
def test_another_epoch_time_or_state_is_of_the_same_form(
    seen: Transaction, epoch: ProducerEpoch, start_ms: int, updated_ms: int, state: State
) -> None:
    form = BatchForm(TransactionRecord("id", seen), seen)
    following = replace(seen, producer_epoch=epoch, start_ms=start_ms, updated_ms=updated_ms, state=state)
    assert form.batch(following) == whole(TransactionRecord("id", following), following)


def test_other_partitions_or_tags_are_of_another_form() -> None:
    seen = Transaction(ProducerId(1), ProducerEpoch(0), 60_000, State.ONGOING, frozenset({partition(0)}), 1, 2)
    form = BatchForm(TransactionRecord("id", seen), seen)
    others = (
        replace(seen, partitions=frozenset({partition(1)})),
        replace(seen, partitions=frozenset()),
        replace(seen, client_version=2),
        replace(seen, previous_producer_id=ProducerId(1)),
        replace(seen, next_producer_id=ProducerId(1)),
        replace(seen, next_producer_epoch=ProducerEpoch(1)),
    )
    assert [form.batch(other) for other in others] == [None] * len(others)
