"""What passes between the edge and the commands on transactions.

A command returns a `Step`: a reply, or what is missing for one, and with it the markers that are to be written now that
the end of a transaction is decided. What a caller did wrong is raised as ProtocolError. CONCURRENT_TRANSACTIONS says
that the end of a transaction is under way: the command may be given again once it is complete.
"""

from __future__ import annotations

from enum import Enum
from typing import Generic, NamedTuple, TypeAlias, TypeVar

import msgspec

from tidelog.machine.runtime import Result
from tidelog.model.ids import TopicPartition
from tidelog.transactions.records import TransactionRecord
from tidelog.transactions.transaction import Producer

ReplyT = TypeVar("ReplyT")


class Ending(NamedTuple):
    """A transaction whose outcome is written down, and whose markers are to be written to its partitions."""

    transactional_id: str
    # The pair that the markers carry.
    producer: Producer
    committed: bool
    partitions: frozenset[TopicPartition]
    coordinator_epoch: int
    # The version of the protocol by which it ended: from 2 on, the epoch of the markers is higher than that of the
    # records, and partitions refuse one that is not (KIP-1228).
    version: int


class Again(Enum):
    """Why there is no reply yet: the command is to be given again."""

    WITH_PRODUCER_ID = "with a fresh producer id"
    WHEN_ENDED = "when the transaction that it ends has ended"


class Step(msgspec.Struct, Generic[ReplyT], frozen=True):
    """What one command came to."""

    reply: ReplyT | Again
    ending: Ending | None = None


Outcome: TypeAlias = Result[TransactionRecord, Step[ReplyT]]


def answer(reply: ReplyT) -> Outcome[ReplyT]:
    """The outcome of a command that writes nothing."""
    return Result((), Step(reply))
