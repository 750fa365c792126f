"""Transactions that begin where the last one ended, of which no record says so."""

from __future__ import annotations

import pytest

from harness.transaction_desk import ID, TIMEOUT_MS, TransactionDesk, partition, producer
from tidelog.transactions.states import State
from tidelog.transactions.transaction import LAST_PRODUCER_EPOCH, Producer


def ended(*indexes: int, desk: TransactionDesk | None = None, commit: bool = True) -> tuple[TransactionDesk, Producer]:
    """A producer whose first transaction, in these partitions, has just ended; it may begin the next."""
    desk = desk or TransactionDesk()
    who = desk.start()
    desk.add(who, *indexes)
    return desk, desk.end(who, commit=commit)


def test_a_transaction_that_begins_where_the_last_one_ended_needs_no_record() -> None:
    desk, who = ended(0, 1)
    written = len(desk.batches)

    assert not desk.begin(who, 1)

    assert len(desk.batches) == written
    assert desk.transaction().state is State.ONGOING
    assert desk.transaction().partitions == {partition(1)}
    assert not desk.shard.completed, "the last one is over"


def test_it_ends_like_any_other() -> None:
    desk, who = ended(0)
    desk.begin(who)
    written = len(desk.batches)

    assert desk.end(who) == producer(who.id, who.epoch + 1)

    assert len(desk.batches) == written + 1
    assert not desk.shard.unwritten
    assert desk.delivered[-1].partitions == {partition(0)}


@pytest.mark.parametrize("commit", [True, False])
def test_who_takes_over_learns_of_it_when_the_last_markers_are_written_again(commit: bool) -> None:
    desk, who = ended(0, 1, commit=commit)
    desk.begin(who, 1)
    desk.delivers = False
    desk.reload()
    assert desk.transaction().state in (State.PREPARE_COMMIT, State.PREPARE_ABORT)

    desk.go_on(1)

    assert desk.transaction().state is State.ONGOING
    assert desk.transaction().partitions == {partition(1)}
    assert desk.transaction().producer == who, "its producer goes on"
    desk.reload()
    assert (desk.endings, desk.transaction().state) == ([], State.ONGOING), "that is written down"
    desk.delivers = True
    assert desk.end(who) == producer(who.id, who.epoch + 1)


def test_what_is_learned_too_late_changes_nothing() -> None:
    desk, who = ended(0, desk=TransactionDesk(delivers=False))
    desk.endings *= 2
    again = desk.endings.pop()
    desk.deliver()
    desk.add(who, 1)
    desk.endings.append(again)
    written = len(desk.batches)

    desk.go_on(0)

    assert len(desk.batches) == written
    assert desk.transaction().partitions == {partition(1)}


def test_it_is_written_down_with_time() -> None:
    desk, who = ended(0)
    desk.begin(who)

    desk.write_down()

    assert not desk.shard.unwritten
    desk.reload()
    assert (desk.endings, desk.transaction().state) == ([], State.ONGOING)


def test_it_times_out_like_any_other() -> None:
    desk, who = ended(0)
    desk.begin(who)

    desk.pass_time(TIMEOUT_MS + 1)

    assert desk.transaction().state is State.COMPLETE_ABORT
    assert desk.transaction().producer_epoch == who.epoch + 1
    assert not desk.shard.unwritten


def test_a_partition_that_the_last_one_did_not_have_is_written_down() -> None:
    desk, who = ended(0)
    assert desk.begin(who, 1)


def test_a_second_partition_is_written_down_with_the_first() -> None:
    desk, who = ended(0, 1)
    desk.begin(who, 0)

    desk.add(who, 1)

    assert not desk.shard.unwritten
    desk.reload()
    assert desk.transaction().partitions == {partition(0), partition(1)}


def test_a_transaction_behind_one_that_is_written_down_as_complete_is_written_down() -> None:
    desk, who = ended(0)
    desk.write_down()
    assert desk.begin(who)


def test_a_transaction_behind_one_of_the_first_protocol_is_written_down() -> None:
    desk = TransactionDesk()
    who = desk.start()
    desk.add_first(who)
    desk.end_first(who)
    assert desk.begin(who), "its markers have the epoch that its records have"


def test_a_transaction_with_another_producer_id_than_the_last_is_written_down() -> None:
    desk = TransactionDesk()
    desk.start()
    who = desk.skip_to_epoch(LAST_PRODUCER_EPOCH)
    desk.add(who)
    fresh = desk.end(who)
    assert fresh.id != who.id
    assert desk.begin(fresh), "partitions would not know it by the last one's markers"


def test_ids_do_not_concern_each_other() -> None:
    desk, who = ended(0)
    other = desk.start("other")
    desk.add(other, 0, transactional_id="other")
    other = desk.end(other, transactional_id="other")
    desk.begin(who)

    assert not desk.begin(other, transactional_id="other")
    desk.end(other, transactional_id="other")

    assert desk.shard.unwritten == {ID}
