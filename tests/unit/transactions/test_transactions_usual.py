"""The short ways of begin and end: whatever they decide, the commands that know everything decide, too."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harness.transaction_desk import ID, START_MS, TIMEOUT_MS, partition, producer
from tidelog.model.ids import NO_PRODUCER, ProducerEpoch, ProducerId
from tidelog.transactions.end import end_transaction, usual_end
from tidelog.transactions.partitions import add_partitions, usual_begin
from tidelog.transactions.records import TransactionRecord
from tidelog.transactions.settings import Settings
from tidelog.transactions.shard import TransactionShard
from tidelog.transactions.states import AT_REST, ENDING, State
from tidelog.transactions.transaction import (
    EPOCH_BUMPING_VERSION,
    LAST_PRODUCER_EPOCH,
    NO_PRODUCER_EPOCH,
    Producer,
    Transaction,
)

NOW_MS = START_MS + 1_000
STATES = [state for state in State if state not in (State.DEAD, State.PREPARE_EPOCH_FENCE)]
EPOCHS = st.sampled_from([0, 1, 5, LAST_PRODUCER_EPOCH - 1, LAST_PRODUCER_EPOCH])
PAIRS = st.tuples(st.integers(7, 8), EPOCHS)
KNOWN = st.builds(
    lambda pair, state, indexes, after, version: Transaction(
        ProducerId(pair[0]),
        ProducerEpoch(pair[1]),
        TIMEOUT_MS,
        state,
        frozenset() if state in AT_REST else frozenset(map(partition, indexes)),
        START_MS,
        START_MS + 1,
        next_producer_id=ProducerId(9) if after else NO_PRODUCER,
        next_producer_epoch=ProducerEpoch(3) if after else NO_PRODUCER_EPOCH,
        client_version=version,
    ),
    PAIRS,
    st.sampled_from(STATES),
    st.frozensets(st.integers(0, 2), min_size=1),
    st.booleans(),
    st.sampled_from([0, EPOCH_BUMPING_VERSION]),
)


def shard_with(known: Transaction | None, is_complete: bool) -> TransactionShard:
    shard = TransactionShard(Settings())
    if known is not None:
        shard.transactions[ID] = known
        if is_complete and known.state in ENDING:
            shard.completed[ID] = known.completed(NOW_MS)
    return shard


@given(st.none() | KNOWN, st.booleans(), PAIRS, st.integers(0, 2))
def test_a_usual_begin_is_what_adding_the_partition_comes_to(
    known: Transaction | None, is_complete: bool, pair: tuple[int, int], index: int
) -> None:
    shard, asker = shard_with(known, is_complete), producer(*pair)

    begun = usual_begin(shard, ID, asker, partition(index), NOW_MS)

    newest = shard.newest(ID)
    is_usual = newest is not None and newest.state in AT_REST and (newest.producer_id, newest.producer_epoch) == pair
    if is_usual and newest is not None and newest.next_producer_id == NO_PRODUCER:
        assert begun is not None
    if begun is not None:
        added = add_partitions(shard, ID, asker, frozenset({partition(index)}), EPOCH_BUMPING_VERSION, NOW_MS)
        assert list(added.records) == [TransactionRecord(ID, begun)]


@given(st.none() | KNOWN, st.booleans(), PAIRS, st.booleans())
def test_a_usual_end_is_what_ending_the_transaction_comes_to(
    known: Transaction | None, is_complete: bool, pair: tuple[int, int], committed: bool
) -> None:
    shard, asker = shard_with(known, is_complete), producer(*pair)

    prepared = usual_end(shard, ID, asker, committed, NOW_MS)

    if known is not None and known.state is State.ONGOING and known.producer == pair and pair[1] < LAST_PRODUCER_EPOCH:
        assert prepared is not None or known.next_producer_id != NO_PRODUCER
    if prepared is not None:
        ended = end_transaction(shard, ID, asker, committed, EPOCH_BUMPING_VERSION, None, NOW_MS)
        assert list(ended.records) == [TransactionRecord(ID, prepared)]
        assert ended.reply.reply == Producer(prepared.producer_id, prepared.producer_epoch)
        assert ended.reply.ending == shard.ending_of(ID, prepared)
