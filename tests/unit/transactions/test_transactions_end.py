"""EndTxn: what is decided, what a retry is told, whom an epoch fences, and what happens at the last epoch."""

from __future__ import annotations

import pytest

from harness.transaction_desk import ID, TIMEOUT_MS, TransactionDesk, partition, producer
from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.transactions.expiry import RETRY_AFTER_MS, expire
from tidelog.transactions.settings import Settings
from tidelog.transactions.states import State
from tidelog.transactions.transaction import LAST_PRODUCER_EPOCH, Producer


def refusal(desk: TransactionDesk, who: Producer, *, commit: bool = True, version: int = 2) -> ErrorCode:
    with pytest.raises(ProtocolError) as refused:
        desk.end(who, commit=commit, version=version)
    return refused.value.code


# Both protocols


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("commit", [True, False])
def test_an_open_transaction_ends_as_its_producer_says(version: int, commit: bool) -> None:
    desk = TransactionDesk(delivers=False)
    who = desk.start()
    desk.add(who, 0, 1, version=version)

    desk.end(who, commit=commit, version=version)

    (ending,) = desk.endings
    assert ending.committed is commit
    assert {each.partition for each in ending.partitions} == {0, 1}
    assert desk.transaction().state is (State.PREPARE_COMMIT if commit else State.PREPARE_ABORT)
    desk.deliver()
    assert desk.transaction().state is (State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT)
    assert desk.transaction().partitions == frozenset()


@pytest.mark.parametrize("version", [0, 2])
def test_an_end_that_was_decided_is_carried_on_by_the_next_coordinator(version: int) -> None:
    desk = TransactionDesk(delivers=False)
    who = desk.start()
    desk.add(who, 0, 1, version=version)
    desk.end(who, version=version)
    (decided,) = desk.endings

    desk.reload()

    (found,) = desk.endings
    assert found == decided._replace(coordinator_epoch=decided.coordinator_epoch + 1)
    desk.deliver()
    assert desk.transaction().state is State.COMPLETE_COMMIT
    desk.write_down()
    desk.reload()
    assert desk.endings == []


def test_an_end_that_is_complete_and_not_written_down_has_its_markers_written_again() -> None:
    desk = TransactionDesk(delivers=False)
    who = desk.start()
    desk.add(who)
    desk.end(who)
    desk.deliver()

    desk.reload()

    (again,) = desk.endings
    assert again.producer == desk.delivered[0].producer
    assert desk.transaction().state is State.PREPARE_COMMIT


def test_the_next_transaction_says_that_the_last_is_complete() -> None:
    desk = TransactionDesk()
    who = desk.start()
    desk.add(who, 0)
    who = desk.end(who)
    written = len(desk.batches)

    desk.add(who, 1)

    assert len(desk.batches) == written + 1
    assert not desk.shard.completed
    desk.reload()
    assert desk.endings == []
    assert desk.transaction().state is State.ONGOING
    assert desk.transaction().partitions == {partition(1)}


def test_a_full_log_leaves_what_is_complete_as_it_is() -> None:
    desk = TransactionDesk()
    who = desk.start()
    desk.add(who)
    desk.end(who)

    desk.is_full = True
    with pytest.raises(ProtocolError) as full:
        desk.write_down()
    assert full.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert desk.transaction().state is State.COMPLETE_COMMIT
    desk.is_full = False
    desk.write_down()

    assert desk.shard.transactions[ID].state is State.COMPLETE_COMMIT
    assert not desk.shard.completed


@pytest.mark.parametrize("version", [0, 2])
def test_an_unknown_id_an_unknown_producer_and_an_old_epoch_are_told_apart(version: int) -> None:
    desk = TransactionDesk()
    assert refusal(desk, producer(1, 0), version=version) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    zombie, who = desk.start(), desk.start()
    desk.add(who)
    assert refusal(desk, producer(who.id + 1, who.epoch), version=version) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert refusal(desk, zombie, version=version) is ErrorCode.PRODUCER_FENCED
    assert refusal(desk, producer(who.id, who.epoch + 1), version=version) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("version", [0, 2])
def test_an_end_under_way_is_not_decided_a_second_time(version: int) -> None:
    desk = TransactionDesk(delivers=False)
    who = desk.start()
    desk.add(who, version=version)
    desk.end(who, version=version)
    assert refusal(desk, who, version=version) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert refusal(desk, who, commit=False, version=version) is ErrorCode.INVALID_TXN_STATE
    assert len(desk.endings) == 1


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("commit", [True, False])
def test_a_retried_end_is_answered_like_the_first_and_never_rejected(version: int, commit: bool) -> None:
    desk = TransactionDesk()
    who = desk.start()
    desk.add(who, version=version)
    answered = desk.end(who, commit=commit, version=version)

    assert desk.end(who, commit=commit, version=version) == answered
    desk.reload()
    assert desk.end(who, commit=commit, version=version) == answered
    assert refusal(desk, who, commit=not commit, version=version) is ErrorCode.INVALID_TXN_STATE
    assert len({ending.producer for ending in desk.delivered}) == 1


@pytest.mark.parametrize("version", [0, 2])
def test_there_is_nothing_to_commit_before_anything_was_added(version: int) -> None:
    desk = TransactionDesk()
    assert refusal(desk, desk.start(), version=version) is ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("version", [0, 2])
def test_markers_that_arrive_late_complete_nothing_that_has_moved_on(version: int) -> None:
    desk = TransactionDesk(delivers=False)
    who = desk.start()
    desk.add(who, version=version)
    after = desk.end(who, version=version)
    late = desk.endings[0]
    desk.deliver()
    desk.add(after, version=version)

    desk.endings.append(late)
    desk.deliver()

    assert desk.transaction().state is State.ONGOING


# The first protocol


def test_in_the_first_protocol_the_epoch_stays_and_markers_carry_it() -> None:
    desk = TransactionDesk()
    who = desk.start()
    desk.add_first(who)
    assert desk.end_first(who) == who
    assert desk.delivered[0].producer == who
    assert desk.delivered[0].version == 0
    desk.add_first(who)
    assert desk.end_first(who, commit=False) == who


def test_in_the_first_protocol_an_abort_of_nothing_is_refused() -> None:
    desk = TransactionDesk()
    assert refusal(desk, desk.start(), commit=False, version=0) is ErrorCode.INVALID_TXN_STATE


# The second protocol


@pytest.mark.parametrize("commit", [True, False])
def test_in_the_second_protocol_every_end_gives_a_new_epoch_which_the_markers_carry(commit: bool) -> None:
    desk = TransactionDesk()
    who = desk.start()
    for number in range(1, 4):
        desk.add(who)
        after = desk.end(who, commit=commit)
        assert after == (who.id, number)
        assert desk.delivered[-1].producer == after
        assert desk.delivered[-1].version == 2
        who = after


def test_a_late_end_never_ends_the_next_transaction() -> None:
    desk = TransactionDesk()
    who = desk.start()
    desk.add(who)
    after = desk.end(who)
    desk.add(after)

    assert refusal(desk, who) is ErrorCode.PRODUCER_FENCED
    assert refusal(desk, who, commit=False) is ErrorCode.PRODUCER_FENCED
    assert desk.transaction().state is State.ONGOING


def test_an_abort_of_nothing_fences_what_may_still_arrive() -> None:
    desk = TransactionDesk()
    who = desk.start()
    after = desk.end(who, commit=False)
    assert after == (who.id, 1)
    assert desk.transaction().state is State.COMPLETE_ABORT
    again = desk.end(after, commit=False)
    assert again == (who.id, 2)
    assert desk.end(after, commit=False) == again


def test_the_next_transaction_waits_for_the_markers_of_the_last() -> None:
    desk = TransactionDesk(delivers=False)
    who = desk.start()
    desk.add(who)
    after = desk.end(who)
    with pytest.raises(ProtocolError) as refused:
        desk.add(after)
    assert refused.value.code is ErrorCode.CONCURRENT_TRANSACTIONS
    assert refusal(desk, after, commit=False) is ErrorCode.CONCURRENT_TRANSACTIONS
    desk.deliver()
    desk.add(after)


def test_the_end_at_the_last_epoch_gives_a_new_producer_id_also_when_it_is_retried() -> None:
    desk = TransactionDesk(delivers=False)
    desk.start()
    last = desk.skip_to_epoch(LAST_PRODUCER_EPOCH)
    desk.add(last)

    after = desk.end(last)

    assert after == (last.id + 1, 0)
    assert desk.endings[0].producer == (last.id, LAST_PRODUCER_EPOCH + 1)
    assert refusal(desk, last) is ErrorCode.CONCURRENT_TRANSACTIONS
    desk.deliver()
    assert desk.end(last) == after
    desk.write_down()
    desk.reload()
    assert desk.end(last) == after
    assert refusal(desk, last, commit=False) is ErrorCode.INVALID_TXN_STATE
    desk.add(after)
    assert desk.end(after) == (after.id, 1)


def test_a_coordinator_that_takes_over_in_the_middle_of_the_last_epochs_end_keeps_the_new_id() -> None:
    desk = TransactionDesk(delivers=False)
    desk.start()
    last = desk.skip_to_epoch(LAST_PRODUCER_EPOCH)
    desk.add(last)
    after = desk.end(last)
    desk.reload()
    desk.deliver()
    assert desk.end(last) == after
    desk.add(after)


# Time-outs


@pytest.mark.parametrize("version", [0, 2])
def test_a_transaction_that_is_left_open_is_aborted_at_its_deadline_and_its_producer_fenced(version: int) -> None:
    desk = TransactionDesk()
    who = desk.start()
    desk.add(who, version=version)
    desk.pass_time(TIMEOUT_MS - 1)
    assert desk.transaction().state is State.ONGOING

    desk.pass_time(1)

    assert desk.transaction().state is State.COMPLETE_ABORT
    assert desk.delivered[0].producer == (who.id, who.epoch + 1)
    assert refusal(desk, who, version=version) is ErrorCode.PRODUCER_FENCED
    assert refusal(desk, who, commit=False, version=version) is ErrorCode.PRODUCER_FENCED
    desk.reload()
    assert refusal(desk, who, version=version) is ErrorCode.PRODUCER_FENCED
    assert desk.start() == (who.id, who.epoch + 2)


def test_a_deadline_that_cannot_be_acted_on_now_is_tried_again_later_and_not_at_once() -> None:
    desk = TransactionDesk()
    desk.add(desk.start())
    desk.is_full = True
    desk.now_ms += TIMEOUT_MS
    with pytest.raises(ProtocolError):
        desk.run(lambda shard, _, now_ms: expire(shard, now_ms))

    assert desk.shard.next_deadline_ms() == desk.now_ms + RETRY_AFTER_MS
    desk.is_full = False
    desk.pass_time(RETRY_AFTER_MS)
    assert desk.transaction().state is State.COMPLETE_ABORT


def test_ids_that_cannot_be_forgotten_now_are_forgotten_later_and_not_at_once() -> None:
    desk = TransactionDesk(Settings(id_expiration_ms=1_000, id_expiration_check_interval_ms=1_000))
    desk.start()
    desk.is_full = True
    desk.now_ms += 1_000
    with pytest.raises(ProtocolError):
        desk.run(lambda shard, _, now_ms: expire(shard, now_ms))

    deadline_ms = desk.shard.next_deadline_ms()
    assert deadline_ms is not None and deadline_ms > desk.now_ms
    desk.is_full = False
    desk.pass_time(2_000)
    assert not desk.shard.transactions


def test_partitions_that_are_added_later_do_not_move_the_deadline() -> None:
    desk = TransactionDesk()
    who = desk.start()
    desk.add(who, 0)
    desk.pass_time(TIMEOUT_MS - 1)
    desk.add(who, 1)
    desk.pass_time(1)
    assert desk.transaction().state is State.COMPLETE_ABORT


def test_deadlines_are_kept_by_the_next_coordinator() -> None:
    desk = TransactionDesk()
    desk.add(desk.start())
    desk.pass_time(TIMEOUT_MS // 2)
    desk.reload()
    desk.pass_time(TIMEOUT_MS // 2 - 1)
    assert desk.transaction().state is State.ONGOING
    desk.pass_time(1)
    assert desk.transaction().state is State.COMPLETE_ABORT


def test_a_transaction_that_ended_in_time_has_no_deadline() -> None:
    desk = TransactionDesk()
    who = desk.start()
    for _ in range(3):
        desk.add(who)
        who = desk.end(who)
        desk.pass_time(1)
    desk.pass_time(10 * TIMEOUT_MS)
    assert desk.transaction().state is State.COMPLETE_COMMIT


def test_the_deadlines_of_ended_transactions_do_not_pile_up() -> None:
    desk = TransactionDesk()
    who = desk.start()
    for _ in range(500):
        desk.now_ms += 1
        desk.add_first(who)
        desk.end_first(who)
    assert len(desk.shard._deadlines) == 1


def test_a_transaction_keeps_its_own_deadline_though_that_of_one_before_was_noted() -> None:
    desk = TransactionDesk()
    who = desk.start()
    desk.add(who)
    who = desk.end(who)
    desk.now_ms += TIMEOUT_MS // 2
    desk.add(who)
    desk.pass_time(TIMEOUT_MS - 1)
    assert desk.transaction().state is State.ONGOING, "the deadline of the first has passed, which says nothing"
    desk.pass_time(1)
    assert desk.transaction().state is State.COMPLETE_ABORT


def test_whoever_drives_the_shard_is_told_of_a_deadline_before_the_one_that_was_noted() -> None:
    desk = TransactionDesk()
    desk.add(desk.start())
    who = desk.init(timeout_ms=TIMEOUT_MS // 10).producer
    desk.shard.has_new_deadline = False
    desk.add(who)
    assert desk.shard.has_new_deadline
    assert desk.shard.next_deadline_ms() == desk.now_ms + TIMEOUT_MS // 10
