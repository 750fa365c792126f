"""InitProducerId for transactional ids: who gets the id, who is fenced, and what becomes of an open transaction."""

from __future__ import annotations

import pytest

from harness.transaction_desk import FIRST_PRODUCER_ID, ID, TIMEOUT_MS, TransactionDesk, producer
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.transactions.settings import Settings
from tidelog.transactions.states import State
from tidelog.transactions.transaction import LAST_PRODUCER_EPOCH, NO_TIMEOUT_MS, NOBODY, Producer


def refusal(desk: TransactionDesk, **asked: object) -> ErrorCode:
    with pytest.raises(ProtocolError) as refused:
        desk.init(**asked)  # type: ignore[arg-type]
    return refused.value.code


def exhausted(desk: TransactionDesk) -> Producer:
    """A producer with the last epoch that there is for its id."""
    desk.start()
    return desk.skip_to_epoch(LAST_PRODUCER_EPOCH)


def test_a_new_transactional_id_gets_a_fresh_producer_id_with_epoch_0() -> None:
    desk = TransactionDesk()
    assert desk.init() == (producer(FIRST_PRODUCER_ID + 1, 0), NOBODY)
    assert desk.init("another").producer == producer(FIRST_PRODUCER_ID + 2, 0)


def test_whoever_asks_next_gets_the_next_epoch_of_the_same_producer_id() -> None:
    desk = TransactionDesk()
    first = desk.start()
    assert desk.start() == (first.id, 1)
    desk.reload()
    assert desk.start() == (first.id, 2)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_beyond_what_the_broker_allows_is_refused(timeout_ms: int) -> None:
    assert refusal(TransactionDesk(), timeout_ms=timeout_ms) is ErrorCode.INVALID_TRANSACTION_TIMEOUT


def test_an_open_transaction_is_aborted_before_its_producer_is_replaced() -> None:
    desk = TransactionDesk()
    first = desk.start()
    desk.add(first, 0, 1)

    second = desk.start()

    (ending,) = desk.delivered
    assert not ending.committed and len(ending.partitions) == 2
    # The markers fence what the first producer may still send; the second has an epoch above theirs.
    assert ending.producer == (first.id, first.epoch + 1)
    assert second == (first.id, first.epoch + 2)
    assert desk.transaction().state is State.EMPTY


def test_while_markers_are_missing_the_next_producer_waits() -> None:
    desk = TransactionDesk(delivers=False)
    desk.add(desk.start())
    assert refusal(desk) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert refusal(desk) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert len(desk.endings) == 1
    desk.deliver()
    assert desk.start().epoch == 2


def test_the_epoch_after_the_last_one_belongs_to_a_new_producer_id() -> None:
    desk = TransactionDesk()
    last = exhausted(desk)
    assert desk.start() == (last.id + 1, 0)


def test_a_producer_whose_epochs_are_used_up_can_still_be_fenced() -> None:
    desk = TransactionDesk()
    last = exhausted(desk)
    desk.add(last)
    second = desk.start()
    assert desk.delivered[-1].producer == (last.id, 2**15 - 1)
    assert second == (last.id + 1, 0)


def test_a_producer_that_names_its_pair_gets_the_next_epoch() -> None:
    desk = TransactionDesk()
    first = desk.start()
    assert desk.init(has=first).producer == (first.id, 1)


def test_a_producer_that_asks_again_because_the_answer_was_lost_gets_the_same_answer() -> None:
    desk = TransactionDesk()
    first = desk.start()
    answered = desk.init(has=first)
    assert desk.init(has=first) == answered


def test_a_producer_at_its_last_epoch_that_asks_again_gets_the_same_new_id() -> None:
    desk = TransactionDesk()
    last = exhausted(desk)
    answered = desk.init(has=last)
    assert answered.producer == (last.id + 1, 0)
    assert desk.init(has=last) == answered


def test_a_producer_that_was_replaced_is_fenced_when_it_names_its_pair() -> None:
    desk = TransactionDesk()
    first = desk.start()
    desk.start()
    assert refusal(desk, has=first) is ErrorCode.PRODUCER_FENCED
    assert refusal(desk, has=producer(first.id + 1, 0)) is ErrorCode.PRODUCER_FENCED


def test_a_zombie_that_asks_for_a_new_epoch_does_not_abort_the_transaction_of_its_successor() -> None:
    desk = TransactionDesk()
    zombie = desk.start()
    successor = desk.start()
    desk.add(successor)
    assert refusal(desk, has=zombie) is ErrorCode.PRODUCER_FENCED
    assert desk.transaction().state is State.ONGOING


def test_a_producer_in_the_middle_of_a_transaction_that_names_its_pair_aborts_it() -> None:
    desk = TransactionDesk()
    first = desk.start()
    desk.add(first)
    with pytest.raises(ProtocolError) as refused:
        # As the clients of Kafka see it: its own epoch was bumped by the abort, so only a retry without it succeeds.
        desk.init(has=first)
    assert refused.value.code is ErrorCode.PRODUCER_FENCED
    assert not desk.delivered[-1].committed
    assert desk.transaction().state is State.COMPLETE_ABORT


def test_two_phase_commit_needs_the_operators_permission_and_has_no_timeout() -> None:
    assert refusal(TransactionDesk(), two_phase_commit=True) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

    desk = TransactionDesk(Settings(two_phase_commit=True))
    desk.init(two_phase_commit=True, timeout_ms=0)
    assert desk.transaction().timeout_ms == NO_TIMEOUT_MS


def test_a_silent_id_is_forgotten_and_starts_anew() -> None:
    settings = Settings(id_expiration_ms=10_000, id_expiration_check_interval_ms=1_000)
    desk = TransactionDesk(settings)
    first = desk.start()
    desk.pass_time(9_500)
    assert ID in desk.shard.transactions
    desk.pass_time(2_000)
    assert ID not in desk.shard.transactions
    desk.reload()
    assert desk.init(has=first).producer == (first.id + 1, 0)


def test_an_id_with_an_open_transaction_is_not_forgotten() -> None:
    settings = Settings(id_expiration_ms=1_000, id_expiration_check_interval_ms=1_000, timeout_ms_max=10 * TIMEOUT_MS)
    desk = TransactionDesk(settings)
    desk.add(desk.init(timeout_ms=10 * TIMEOUT_MS).producer)
    desk.pass_time(20_000)
    assert desk.transaction().state is State.ONGOING
