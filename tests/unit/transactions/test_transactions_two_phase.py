"""Two-phase commit (KIP-939): a prepared transaction outlives its producer, and only an outside coordinator ends it."""

from __future__ import annotations

import pytest

from harness.transaction_desk import TransactionDesk
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.transactions.init import Initialized
from tidelog.transactions.settings import Settings
from tidelog.transactions.states import State
from tidelog.transactions.transaction import LAST_PRODUCER_EPOCH, NOBODY, Producer

ENABLED = Settings(two_phase_commit=True)
YEAR_MS = 365 * 24 * 60 * 60_000


def prepared(desk: TransactionDesk) -> Producer:
    """A producer with an open transaction that it will not end: its vote is given, the outside coordinator decides."""
    who = desk.init(two_phase_commit=True).producer
    desk.add(who, 0, 1)
    return who


def come_back(desk: TransactionDesk) -> Initialized:
    return desk.init(two_phase_commit=True, keep_prepared=True)


def refusal(desk: TransactionDesk, who: Producer, *, commit: bool = True) -> ErrorCode:
    with pytest.raises(ProtocolError) as refused:
        desk.end(who, commit=commit)
    return refused.value.code


def test_a_prepared_transaction_never_times_out() -> None:
    desk = TransactionDesk(ENABLED)
    prepared(desk)
    desk.pass_time(YEAR_MS)
    assert desk.transaction().state is State.ONGOING


@pytest.mark.parametrize("commit", [True, False])
def test_a_producer_that_comes_back_ends_the_transaction_that_was_kept_for_it(commit: bool) -> None:
    desk = TransactionDesk(ENABLED)
    before = prepared(desk)
    desk.reload()

    back = come_back(desk)

    assert back.ongoing == before
    assert back.producer == (before.id, before.epoch + 1)
    assert desk.delivered == []
    after = desk.end(back.producer, commit=commit)
    (ending,) = desk.delivered
    assert ending.committed is commit and len(ending.partitions) == 2
    # Above the records that it ends, below or at what the producer has now.
    assert before.epoch < ending.producer.epoch <= back.producer.epoch < after.epoch
    desk.add(after)


def test_the_producer_before_is_fenced_when_its_transaction_is_kept() -> None:
    desk = TransactionDesk(ENABLED)
    before = prepared(desk)
    come_back(desk)
    assert refusal(desk, before) is ErrorCode.PRODUCER_FENCED
    with pytest.raises(ProtocolError) as refused:
        desk.add(before, 2)
    assert refused.value.code is ErrorCode.PRODUCER_FENCED


def test_coming_back_any_number_of_times_keeps_the_transaction_and_only_the_last_can_end_it() -> None:
    desk = TransactionDesk(ENABLED)
    before = prepared(desk)
    first = come_back(desk)
    desk.reload()
    second = come_back(desk)
    assert second.ongoing == before
    assert second.producer.epoch == first.producer.epoch + 1
    assert refusal(desk, first.producer) is ErrorCode.PRODUCER_FENCED
    desk.end(second.producer)
    assert desk.transaction().state is State.COMPLETE_COMMIT


def test_a_kept_transaction_can_only_be_ended() -> None:
    desk = TransactionDesk(ENABLED)
    prepared(desk)
    back = come_back(desk)
    with pytest.raises(ProtocolError) as refused:
        desk.add(back.producer, 5)
    assert refused.value.code is ErrorCode.INVALID_TXN_STATE


def test_a_retried_end_of_a_kept_transaction_is_answered_like_the_first() -> None:
    desk = TransactionDesk(ENABLED, delivers=False)
    prepared(desk)
    back = come_back(desk)
    after = desk.end(back.producer)
    assert refusal(desk, back.producer) is ErrorCode.CONCURRENT_TRANSACTIONS
    desk.reload()
    desk.deliver()
    assert desk.end(back.producer) == after
    desk.write_down()
    desk.reload()
    assert desk.end(back.producer) == after
    assert refusal(desk, back.producer, commit=False) is ErrorCode.INVALID_TXN_STATE


def test_a_producer_that_does_not_ask_to_keep_it_aborts_the_prepared_transaction() -> None:
    desk = TransactionDesk(ENABLED)
    before = prepared(desk)
    come_back(desk)
    successor = desk.init(two_phase_commit=True).producer
    (ending,) = desk.delivered
    assert not ending.committed and ending.producer == (before.id, before.epoch + 1)
    assert successor.epoch > before.epoch + 1
    desk.add(successor)


def test_there_may_be_nothing_to_keep() -> None:
    desk = TransactionDesk(ENABLED)
    assert come_back(desk).ongoing == NOBODY
    who = come_back(desk)
    assert who.ongoing == NOBODY
    desk.add(who.producer)
    after = desk.end(who.producer)
    assert come_back(desk) == Initialized(Producer(after.id, after.epoch + 1))  # type: ignore[arg-type]


def test_keeping_a_transaction_at_the_last_epoch_takes_a_new_producer_id() -> None:
    desk = TransactionDesk(ENABLED)
    desk.init(two_phase_commit=True)
    last = desk.skip_to_epoch(LAST_PRODUCER_EPOCH)
    desk.add(last)
    back = come_back(desk)
    assert back == (Producer(last.id + 1, 0), last)  # type: ignore[arg-type]
    desk.reload()
    again = come_back(desk)
    assert again == (Producer(last.id + 1, 1), last)  # type: ignore[arg-type]
    after = desk.end(again.producer)
    assert desk.delivered[0].producer == (last.id, LAST_PRODUCER_EPOCH + 1)
    assert after == (last.id + 1, 2)
    assert desk.transaction().producer == after


def test_two_phase_transactions_are_limited_in_number() -> None:
    desk = TransactionDesk(Settings(two_phase_commit=True, two_phase_ids_max=2))
    desk.init("a", two_phase_commit=True)
    desk.init("b", two_phase_commit=True)
    with pytest.raises(ProtocolError) as refused:
        desk.init("c", two_phase_commit=True)
    assert refused.value.code is ErrorCode.POLICY_VIOLATION
    desk.init("a", two_phase_commit=True)
    desk.init("b")
    desk.reload()
    desk.init("c", two_phase_commit=True)
