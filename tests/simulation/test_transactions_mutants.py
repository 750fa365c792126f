"""Brokers with a fault that was put in on purpose: the simulation of transactions must find every one of them.

A simulation that cannot lose proves nothing. Each mutant breaks one promise; the test fails when it survives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.transaction_scenarios import SLOW_DISK, run
from harness.transaction_world import Violation
from tidelog.broker import transaction_shard
from tidelog.broker.local_end import write_markers
from tidelog.broker.partition_journal import PartitionJournal
from tidelog.broker.transaction_request import TransactionRequest
from tidelog.broker.transaction_verification import TransactionVerification
from tidelog.groups import records as group_records
from tidelog.groups.offsets import commit
from tidelog.log.aborted_notes import AbortedNotes
from tidelog.log.partition import PartitionLog
from tidelog.log.producers import Producers
from tidelog.log.verifications import Verifications
from tidelog.machine.runtime import Result, Runtime
from tidelog.transactions import end, init, partitions
from tidelog.transactions.calls import Step
from tidelog.transactions.delivery import Delivery
from tidelog.transactions.end import fence
from tidelog.transactions.transaction import Transaction

# Worlds that a mutant gets to be found in. Most are found in the first few.
SEEDS = 300
# The worlds in which disks are full at times are these.
FULL_DISK = 7

Mutate = Callable[[pytest.MonkeyPatch], None]


def commits_that_are_answered_before_they_can_be_read(patch: pytest.MonkeyPatch) -> None:
    stepped = TransactionRequest._stepped

    def hasty(self: TransactionRequest[Any], outcome: Any) -> None:
        if isinstance(outcome, Step) and outcome.ending is not None and not isinstance(outcome.reply, init.Again):
            self._answer(outcome.reply)
            self._host.deliver(outcome.ending)
        else:
            stepped(self, outcome)

    patch.setattr(TransactionRequest, "_stepped", hasty)


def retries_that_are_written_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Producers, "_duplicate", staticmethod(lambda *_: None))


def aborted_transactions_of_which_readers_hear_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AbortedNotes, "stage", lambda *_: None)


def aborted_transactions_that_a_full_disk_forgets(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AbortedNotes, "overlapping", lambda *_: [])


def readers_that_see_what_is_not_decided(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PartitionLog, "last_stable_offset", lambda _, high_watermark: high_watermark)


def batches_that_begin_a_transaction_nobody_knows(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Verifications, "check", lambda *_: None)
    patch.setattr(partitions, "check_producer", lambda *_: None)


def batches_that_begin_a_transaction_without_its_coordinator(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TransactionVerification, "begins_at_once", lambda *_: True)


def zombies_that_may_end_transactions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(end, "check_producer", lambda *_: None)


def ends_that_are_complete_before_their_markers(patch: pytest.MonkeyPatch) -> None:
    deliver = transaction_shard.TransactionShardHost.deliver

    def hasty(self: Any, ending: Any, request: Any = None) -> Any:
        self._delivered(ending.transactional_id, ending.producer, self.now_ms())
        return deliver(self, ending, request)

    patch.setattr(transaction_shard.TransactionShardHost, "deliver", hasty)


def ends_that_are_never_written_down(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(transaction_shard, "write_down", lambda _: Result((), None))


def decisions_that_a_crash_forgets(patch: pytest.MonkeyPatch) -> None:
    loaded = transaction_shard.loaded

    def forgetful(shard: Any, now_ms: int) -> Any:
        return Result((), loaded(shard, now_ms).reply[:0])

    patch.setattr(transaction_shard, "loaded", forgetful)


def transactions_that_never_time_out(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Transaction, "deadline_ms", property(lambda _: None))


def prepared_transactions_that_time_out(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(init, "_timeout_ms", lambda _, asked: asked.timeout_ms)


def prepared_transactions_that_are_not_kept(patch: pytest.MonkeyPatch) -> None:
    init_producer = init.init_producer

    def careless(shard: Any, asked: Any, fresh_id: Any, now_ms: int) -> Any:
        return init_producer(shard, asked._replace(keep_prepared=False), fresh_id, now_ms)

    patch.setattr("tidelog.broker.handlers.init_producer_id.init_producer", careless)


def offsets_that_count_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(commit, "offset_commit", lambda *arguments: group_records.offset_commit(*arguments[:4]))


def answers_before_they_are_safe(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Runtime, "committed_end", property(lambda self: self.end, lambda *_: None), raising=False)


def decisions_that_are_answered_before_they_are_written(patch: pytest.MonkeyPatch) -> None:
    """The short way of a broker that is alone, whose own write makes them safe."""

    class Nobody:
        def replicated(self) -> None: ...
        def failed(self) -> None: ...

    patch.setattr(PartitionJournal, "append_now", lambda self, batch, _: self._leader.stage_own(batch, Nobody()))


def ends_whose_markers_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(transaction_shard, "write_markers", lambda *_: True)


def ends_whose_markers_count_though_their_write_failed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(transaction_shard, "write_markers", lambda *arguments: write_markers(*arguments) or True)


def transactions_without_a_record_that_a_crash_forgets(patch: pytest.MonkeyPatch) -> None:
    """That the next one has begun where the last ended is known to partitions only, which are not believed."""
    patch.setattr(Delivery, "gone_on", property(lambda _: set(), lambda *_: None), raising=False)


def transactions_without_a_record_that_begin_anywhere(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(transaction_shard, "is_found_again", lambda shard, name, _: name in shard.completed)


def markers_that_come_again_and_end_the_next_transaction(patch: pytest.MonkeyPatch) -> None:
    check = Producers.check_marker

    def careless(self: Producers, *arguments: Any, is_newer: bool) -> None:
        check(self, *arguments, is_newer=False)

    patch.setattr(Producers, "check_marker", careless)


def coordinators_that_trust_the_page_cache(patch: pytest.MonkeyPatch) -> None:
    """What a new process finds in its log counts at once, though a loss of power may still take it."""

    def credulous(self: PartitionJournal, runtime: Runtime[Any, Any]) -> None:
        runtime.lead(self._leader.epoch, self._leader.log.end_offset)

    patch.setattr(PartitionJournal, "lead", credulous)


def late_ends_that_end_the_next_transaction(patch: pytest.MonkeyPatch) -> None:
    """As if every epoch were the one that the coordinator knows."""
    end_transaction = end.end_transaction

    def gullible(shard: Any, transactional_id: str, producer: Any, *rest: Any) -> Any:
        transaction = shard.newest(transactional_id)
        if transaction is not None and producer.id == transaction.producer.id:
            producer = transaction.producer
        return end_transaction(shard, transactional_id, producer, *rest)

    patch.setattr("tidelog.broker.handlers.end_txn.end_transaction", gullible)


def takeovers_that_leave_the_old_transaction_open(patch: pytest.MonkeyPatch) -> None:
    def lenient(shard: Any, transactional_id: str, transaction: Any, now_ms: int, reply: Any) -> Any:
        outcome = fence(shard, transactional_id, transaction, now_ms, reply)
        step = outcome.reply
        assert step.ending is not None
        nowhere = step.ending._replace(partitions=frozenset())
        return Result(outcome.records, Step(step.reply, nowhere))

    patch.setattr(init, "fence", lenient)


def epochs_that_do_not_fence_partitions(patch: pytest.MonkeyPatch) -> None:
    check = Producers.check

    def blind(self: Producers, header: Any) -> Any:
        entry = self.entry(header.producer_id)
        if entry is not None and header.producer_epoch < entry.epoch:
            return None
        return check(self, header)

    patch.setattr(Producers, "check", blind)
    patch.setattr(Verifications, "check", lambda *_: None)


MUTANTS: dict[Mutate, int] = {
    commits_that_are_answered_before_they_can_be_read: 1,
    retries_that_are_written_again: 1,
    aborted_transactions_of_which_readers_hear_nothing: 1,
    aborted_transactions_that_a_full_disk_forgets: FULL_DISK,
    readers_that_see_what_is_not_decided: 1,
    batches_that_begin_a_transaction_nobody_knows: 1,
    batches_that_begin_a_transaction_without_its_coordinator: 1,
    zombies_that_may_end_transactions: 1,
    ends_that_are_complete_before_their_markers: 1,
    ends_that_are_never_written_down: 1,
    decisions_that_a_crash_forgets: 1,
    transactions_that_never_time_out: 1,
    prepared_transactions_that_time_out: 1,
    prepared_transactions_that_are_not_kept: 1,
    offsets_that_count_at_once: 1,
    answers_before_they_are_safe: 1,
    decisions_that_are_answered_before_they_are_written: 1,
    ends_whose_markers_are_forgotten: 1,
    ends_whose_markers_count_though_their_write_failed: FULL_DISK,
    transactions_without_a_record_that_a_crash_forgets: 1,
    transactions_without_a_record_that_begin_anywhere: 1,
    markers_that_come_again_and_end_the_next_transaction: 1,
    coordinators_that_trust_the_page_cache: SLOW_DISK,
    late_ends_that_end_the_next_transaction: 1,
    takeovers_that_leave_the_old_transaction_open: 1,
    epochs_that_do_not_fence_partitions: 1,
}


@pytest.mark.parametrize("mutate", MUTANTS, ids=lambda mutate: mutate.__name__)
def test_the_simulation_finds(mutate: Mutate, monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch)

    for seed in range(0, MUTANTS[mutate] * SEEDS, MUTANTS[mutate]):
        try:
            run(seed)
        except Violation:
            return
    pytest.fail(f"the mutant survived {SEEDS} worlds")
