"""What a coordinator knows of one transactional id. Never changed, only replaced by replaying a record.

A producer is known by a pair of id and epoch. Usually there is one pair. There are two while a transaction ends whose
epoch is the last there is, and while one is kept prepared for a producer that came back (KIP-939): the pair of the
transaction, in its records and markers, and the pair that the producer uses from now on.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from tidelog.model.ids import NO_PRODUCER, NO_TIMESTAMP, ProducerEpoch, ProducerId, TopicPartition
from tidelog.transactions.states import LEGAL_MOVES, State

NO_PRODUCER_EPOCH: Final = ProducerEpoch(-1)
# One more is left to fence the producer that has it: then markers carry 32767, which no producer ever gets.
LAST_PRODUCER_EPOCH: Final = ProducerEpoch(2**15 - 2)
# The timeout of a transaction that only an outside coordinator ends (KIP-939).
NO_TIMEOUT_MS: Final = 2**31 - 1
# The version of the transaction protocol that bumps the epoch at every end (KIP-890); before it, 0.
FIRST_VERSION: Final = 0
EPOCH_BUMPING_VERSION: Final = 2


NOTHING_OPEN: Final[frozenset[TopicPartition]] = frozenset()
COMPLETIONS: Final = {State.PREPARE_COMMIT: State.COMPLETE_COMMIT, State.PREPARE_ABORT: State.COMPLETE_ABORT}


class Producer(NamedTuple):
    """A producer id with an epoch: who may write, and who is a zombie."""

    id: ProducerId
    epoch: ProducerEpoch


NOBODY: Final = Producer(NO_PRODUCER, NO_PRODUCER_EPOCH)


class Transaction(msgspec.Struct, frozen=True):
    """The newest transaction of one transactional id."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    timeout_ms: int
    state: State = State.EMPTY
    partitions: frozenset[TopicPartition] = NOTHING_OPEN
    start_ms: int = NO_TIMESTAMP
    updated_ms: int = NO_TIMESTAMP
    # The id that the producer had when it asked for the end of its transaction: a retry still uses it.
    previous_producer_id: ProducerId = NO_PRODUCER
    # The pair that replaces the one above when the transaction has ended; the epoch is -1 for 0.
    next_producer_id: ProducerId = NO_PRODUCER
    next_producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH
    # Which protocol ended it. A coordinator that fences a producer does so by the first.
    client_version: int = FIRST_VERSION
    # The epoch before the last InitProducerId that named it, to recognise a retry. Not written: lost with the leader.
    last_epoch: ProducerEpoch = NO_PRODUCER_EPOCH

    @property
    def producer(self) -> Producer:
        """The pair that the producer is to use now."""
        return Producer(*self._current())

    def _current(self) -> tuple[ProducerId, ProducerEpoch]:
        if self.next_producer_id == NO_PRODUCER:
            return self.producer_id, self.producer_epoch
        return self.next_producer_id, ProducerEpoch(max(self.next_producer_epoch, 0))

    @property
    def deadline_ms(self) -> int | None:
        """When an open transaction is aborted by the coordinator; None for never."""
        if self.state is not State.ONGOING or self.timeout_ms == NO_TIMEOUT_MS:
            return None
        return self.start_ms + self.timeout_ms

    @property
    def is_commit(self) -> bool:
        return self.state in (State.PREPARE_COMMIT, State.COMPLETE_COMMIT)

    def moved(self, state: State, **changes: Any) -> Transaction:
        """The transaction after a move, which must be legal."""
        assert state in LEGAL_MOVES[self.state], f"{self.state} cannot become {state}"
        return msgspec.structs.replace(self, state=state, **changes)

    # The moves of every transaction, as `moved` makes them, but quicker.

    def opened(
        self, partitions: frozenset[TopicPartition], start_ms: int, updated_ms: int, client_version: int
    ) -> Transaction:
        """The transaction with these partitions in it."""
        assert State.ONGOING in LEGAL_MOVES[self.state], f"{self.state} cannot become {State.ONGOING}"
        return Transaction(
            self.producer_id,
            self.producer_epoch,
            self.timeout_ms,
            State.ONGOING,
            partitions,
            start_ms,
            updated_ms,
            self.previous_producer_id,
            self.next_producer_id,
            self.next_producer_epoch,
            client_version,
            self.last_epoch,
        )

    def prepared(
        self, state: State, epoch: ProducerEpoch, after: Producer | None, updated_ms: int, client_version: int
    ) -> Transaction:
        """The transaction once its end is decided, which its markers say with this epoch.

        `after` is the pair that the producer is to use then, where it is another than this one.
        """
        assert state in LEGAL_MOVES[self.state], f"{self.state} cannot become {state}"
        producer_id, producer_epoch = self._current()
        return Transaction(
            self.producer_id,
            epoch,
            self.timeout_ms,
            state,
            self.partitions,
            self.start_ms,
            updated_ms,
            producer_id,
            NO_PRODUCER if after is None else after.id,
            NO_PRODUCER_EPOCH if after is None else after.epoch or NO_PRODUCER_EPOCH,
            client_version,
            self.last_epoch if epoch == self.producer_epoch else producer_epoch,
        )

    def completed(self, updated_ms: int) -> Transaction:
        """The transaction after the last of its markers: the pair that the producer is to use is the only one now."""
        state = COMPLETIONS[self.state]
        assert state in LEGAL_MOVES[self.state], f"{self.state} cannot become {state}"
        producer_id, producer_epoch = self._current()
        return Transaction(
            producer_id,
            producer_epoch,
            self.timeout_ms,
            state,
            NOTHING_OPEN,
            self.start_ms,
            updated_ms,
            self.previous_producer_id,
            NO_PRODUCER,
            NO_PRODUCER_EPOCH,
            self.client_version,
            self.last_epoch,
        )

    def was_ended_by(self, asker: Producer) -> bool:
        """Whether the end under way, or the last one, is what this producer asked for with the pair it had before."""
        if self.client_version < EPOCH_BUMPING_VERSION:
            return False
        now = self.producer
        if now.epoch > 0:
            return asker == (now.id, now.epoch - 1)
        return asker == (self.previous_producer_id, LAST_PRODUCER_EPOCH)


def next_producer(producer: Producer, fresh_id: ProducerId | None) -> Producer | None:
    """The pair after this one; None when its epochs are used up and a fresh id is needed that was not given."""
    if producer.epoch < LAST_PRODUCER_EPOCH:
        return Producer(producer.id, ProducerEpoch(producer.epoch + 1))
    return None if fresh_id is None else Producer(fresh_id, ProducerEpoch(0))
