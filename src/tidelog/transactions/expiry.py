"""What happens as time passes: open transactions time out, transactional ids that nobody uses are forgotten."""

from __future__ import annotations

from typing import Final

from tidelog.machine.runtime import Result
from tidelog.transactions.calls import Ending, Outcome, Step, answer
from tidelog.transactions.end import fence
from tidelog.transactions.records import TransactionRecord
from tidelog.transactions.shard import TransactionShard
from tidelog.transactions.states import AT_REST, ENDING

# Ids that one sweep forgets at most, so that it does not hold up others; the next one follows at once.
FORGOTTEN_PER_SWEEP_MAX: Final = 1_000
# A log that cannot be written now may be writable after this.
RETRY_AFTER_MS: Final = 1_000


def loaded(shard: TransactionShard, now_ms: int) -> Result[TransactionRecord, list[Ending]]:
    """The moment a shard begins to lead: ends that were decided and not completed are to be carried on."""
    shard.next_sweep_ms = now_ms + shard.settings.id_expiration_check_interval_ms
    shard.has_new_deadline = True
    return Result(
        (),
        [
            shard.ending_of(transactional_id, transaction)
            for transactional_id, transaction in shard.transactions.items()
            if transaction.state in ENDING
        ],
    )


def expire(shard: TransactionShard, now_ms: int) -> Outcome[None]:
    """Act on the earliest deadline that has passed; nothing when none has. Submit again while one has passed."""
    transactional_id = shard.timed_out(now_ms)
    if transactional_id is not None:
        # Unless the record gets through, the next try is not at once.
        shard.retry_ms = now_ms + RETRY_AFTER_MS
        return fence(shard, transactional_id, shard.transactions[transactional_id], now_ms, None)
    if shard.next_sweep_ms is not None and shard.next_sweep_ms <= now_ms:
        return _forget_unused(shard, now_ms)
    return answer(None)


def _forget_unused(shard: TransactionShard, now_ms: int) -> Outcome[None]:
    used_after_ms = now_ms - shard.settings.id_expiration_ms
    unused = [
        transactional_id
        for transactional_id, transaction in shard.transactions.items()
        if transaction.state in AT_REST and transaction.updated_ms <= used_after_ms
    ]
    if unused:
        shard.retry_ms = now_ms + RETRY_AFTER_MS
    if len(unused) <= FORGOTTEN_PER_SWEEP_MAX:
        shard.next_sweep_ms = now_ms + shard.settings.id_expiration_check_interval_ms
    forgotten = [TransactionRecord(transactional_id, None) for transactional_id in unused[:FORGOTTEN_PER_SWEEP_MAX]]
    return Result(forgotten, Step(None))
