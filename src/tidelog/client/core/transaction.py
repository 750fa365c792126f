"""The states of a transactional producer, which moves between them are legal, and what each error means.

`aio/transactions.py` asks the coordinator; the sender asks here whether a partition may be written to (KIP-98, KIP-360,
KIP-890, KIP-939).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from tidelog.client.core.groups import CommittedOffset
from tidelog.client.core.sending import TransactionGate
from tidelog.client.errors import (
    ClientError,
    IllegalTransactionState,
    ProducerFenced,
    Rejected,
    TransactionFailed,
)
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ProducerEpoch, ProducerId, TopicPartition

# The level of the feature from which on partitions join a transaction by being written to (KIP-890).
TRANSACTION_FEATURE: Final = "transaction.version"
IMPLICIT_ADD_LEVEL: Final = 2

OffsetsToCommit = Mapping[TopicPartition, CommittedOffset | int]


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """Who commits offsets inside a transaction: with generation and member a late member is refused (KIP-447)."""

    group_id: str
    generation: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class PreparedTransaction:
    """A transaction that is written and not decided, as a coordinator of two phases remembers it: "id:epoch"."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch

    def __str__(self) -> str:
        return f"{self.producer_id}:{self.producer_epoch}"

    @classmethod
    def parse(cls, text: str) -> PreparedTransaction:
        producer_id, _, epoch = text.partition(":")
        return cls(ProducerId(int(producer_id)), ProducerEpoch(int(epoch)))


class State(Enum):
    """What a transactional producer is at."""

    NEW = auto()
    INITIALIZING = auto()
    READY = auto()
    OPEN = auto()
    PREPARED = auto()
    COMMITTING = auto()
    ABORTING = auto()
    FAILED = auto()  # Only an abort is possible.
    DEAD = auto()  # Another producer has the id, or the coordinator will never accept this one.


LEGAL_MOVES: Final[dict[State, frozenset[State]]] = {
    State.NEW: frozenset({State.INITIALIZING, State.DEAD}),
    State.INITIALIZING: frozenset({State.READY, State.PREPARED, State.NEW, State.DEAD}),
    State.READY: frozenset({State.OPEN, State.DEAD}),
    State.OPEN: frozenset({State.PREPARED, State.COMMITTING, State.ABORTING, State.FAILED, State.DEAD}),
    State.PREPARED: frozenset({State.COMMITTING, State.ABORTING, State.FAILED, State.DEAD}),
    State.COMMITTING: frozenset({State.READY, State.FAILED, State.DEAD}),
    State.ABORTING: frozenset({State.READY, State.FAILED, State.DEAD}),
    State.FAILED: frozenset({State.ABORTING, State.DEAD}),
    State.DEAD: frozenset(),
}

FATAL: Final = frozenset(
    {
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        ErrorCode.INVALID_TRANSACTION_TIMEOUT,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    }
)
FENCED: Final = frozenset(
    {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED}
)


class Transaction(TransactionGate):
    """The transaction that a producer is in, or not."""

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id: str | None = transactional_id
        self.state = State.NEW
        self.error: ClientError | None = None
        # Whether the brokers add partitions by themselves.
        self.implicit_add = False
        self.added: set[TopicPartition] = set()
        self.offsets_added = False
        # Something failed: the next transaction begins with a new epoch.
        self.needs_epoch = False

    @property
    def is_started(self) -> bool:
        """Whether the coordinator knows, or may know, of the transaction."""
        return bool(self.added) or self.offsets_added

    def move(self, to: State) -> None:
        if to not in LEGAL_MOVES[self.state]:
            raise self.refusal(f"A transaction that is {self.state.name.lower()} cannot become {to.name.lower()}.")
        self.state = to
        if to is State.READY:
            self.error = None
            self.added.clear()
            self.offsets_added = False
            self.needs_epoch = False

    def begin(self) -> None:
        if self.state is not State.READY:
            raise self.refusal(f"A transaction cannot begin while the producer is {self.state.name.lower()}.")
        self.move(State.OPEN)

    def check_send(self) -> None:
        """Raise unless a record may be handed over now."""
        if self.state is not State.OPEN:
            raise self.refusal("A transactional producer sends only between begin and commit.")

    def check_commit(self) -> None:
        """Raise unless the transaction can be committed."""
        if self.state not in (State.OPEN, State.PREPARED):
            raise self.refusal("There is no transaction to commit.")

    def refusal(self, sentence: str) -> ClientError:
        """The error of a step out of turn: the one that made it so, if there was one."""
        if self.state is State.DEAD and self.error is not None:
            return self.error
        if self.state is State.FAILED:
            return TransactionFailed(f"The transaction failed and has to be aborted: {self.error}")
        return IllegalTransactionState(sentence)

    def may_send(self, partition: TopicPartition) -> bool:
        """Asked by the sender before each batch."""
        if self.implicit_add and self.state in (State.OPEN, State.COMMITTING):
            self.added.add(partition)
            return True
        return partition in self.added

    def failed(self, error: ClientError) -> None:
        """Told by the sender that a batch was given up, and by the driver that a step failed."""
        if self.state is State.ABORTING:
            # What is let go by an abort may have had a sequence, and leave a gap.
            self.needs_epoch = True
        if self.state in (State.DEAD, State.READY, State.ABORTING):
            return
        fatal = isinstance(error, ProducerFenced) or (isinstance(error, Rejected) and error.code in FATAL)
        self.needs_epoch = True
        if self.error is None or fatal:
            self.error = error
        if fatal:
            self.state = State.DEAD
        elif self.state in (State.OPEN, State.PREPARED, State.COMMITTING):
            self.state = State.FAILED


def meaning(error: Rejected) -> ClientError:
    """What a coordinator's refusal means to a transactional producer."""
    if error.code in FENCED:
        return ProducerFenced("Another producer with the same transactional id has begun.")
    return error
