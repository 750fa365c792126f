"""AddPartitionsToTxn: which partitions belong to a transaction, and what partition leaders are told when they ask."""

from __future__ import annotations

import pytest

from harness.transaction_desk import TransactionDesk, partition, producer
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.transactions.states import State


def test_a_transaction_begins_with_its_first_partition_and_grows() -> None:
    desk = TransactionDesk()
    who = desk.start()
    desk.add(who, 0)
    began_ms = desk.transaction().start_ms
    desk.now_ms += 5
    desk.add(who, 1, 2)
    transaction = desk.transaction()
    assert transaction.state is State.ONGOING
    assert transaction.partitions == {partition(0), partition(1), partition(2)}
    assert (transaction.start_ms, transaction.updated_ms) == (began_ms, began_ms + 5)


def test_partitions_that_are_known_already_cost_no_record() -> None:
    desk = TransactionDesk()
    who = desk.start()
    desk.add(who, 0, 1)
    written = len(desk.batches)
    desk.add(who, 1)
    assert len(desk.batches) == written


def test_nobody_else_adds_partitions() -> None:
    desk = TransactionDesk()
    zombie, who = desk.start(), desk.start()
    for asker, code in (
        (zombie, ErrorCode.PRODUCER_FENCED),
        (producer(who.id + 9, who.epoch), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ):
        with pytest.raises(ProtocolError) as refused:
            desk.add(asker)
        assert refused.value.code is code
    with pytest.raises(ProtocolError) as refused:
        desk.add(who, transactional_id="unknown")
    assert refused.value.code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    with pytest.raises(ProtocolError) as refused:
        desk.add(who, transactional_id="")
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_a_leader_that_asks_learns_what_belongs_to_the_open_transaction_and_nothing_is_written() -> None:
    desk = TransactionDesk()
    who = desk.start()
    assert desk.verify(who, 0) == [ErrorCode.TRANSACTION_ABORTABLE]
    desk.add(who, 0)
    written = len(desk.batches)
    assert desk.verify(who, 0, 1) == [ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE]
    assert len(desk.batches) == written
    after = desk.end(who)
    assert desk.verify(after, 0) == [ErrorCode.TRANSACTION_ABORTABLE]


def test_a_leader_that_asks_for_a_zombie_is_told_so() -> None:
    desk = TransactionDesk()
    zombie = desk.start()
    desk.add(zombie, 0)
    desk.start()
    with pytest.raises(ProtocolError) as refused:
        desk.verify(zombie, 0)
    assert refused.value.code is ErrorCode.PRODUCER_FENCED


def test_a_leader_that_asks_while_the_transaction_ends_is_to_ask_again() -> None:
    desk = TransactionDesk(delivers=False)
    who = desk.start()
    desk.add_first(who, 0)
    desk.end_first(who)
    with pytest.raises(ProtocolError) as refused:
        desk.verify(who, 0)
    assert refused.value.code is ErrorCode.CONCURRENT_TRANSACTIONS
