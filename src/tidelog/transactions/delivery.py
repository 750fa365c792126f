"""The delivery of one transaction's markers: which partitions still miss theirs, and what an error means.

The edge sends markers to the leaders of `missing`, tells what they answered, and acts on what it is told. Markers may
be written twice, after a lost answer or a crash; a partition takes the second for what it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.transactions.calls import Ending
from tidelog.transactions.transaction import EPOCH_BUMPING_VERSION

# The first retry comes after this long, each further one after twice as long, up to the longest.
RETRY_FIRST_MS: Final = 20
RETRY_LONGEST_MS: Final = 1_000


class Meaning(Enum):
    """What the answer of a partition's leader means."""

    WRITTEN = "written"
    # The partition has another leader, or its leader cannot write now.
    RETRY = "retry"
    # Nothing of the transaction can be open there: the partition knows records of the producer that come after it.
    GONE_ON = "gone on"
    # Markers are not for this partition.
    NOTHING_TO_END = "nothing to end"
    # A newer coordinator has taken over: that one ends what there is to end.
    FENCED = "fenced"


MEANINGS: Final[dict[ErrorCode, Meaning]] = {
    ErrorCode.NONE: Meaning.WRITTEN,
    ErrorCode.INVALID_PRODUCER_EPOCH: Meaning.GONE_ON,
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: Meaning.NOTHING_TO_END,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: Meaning.FENCED,
}


class Delivery:
    """The markers of one transaction on their way."""

    def __init__(self, ending: Ending) -> None:
        self.ending = ending
        self.missing = set(ending.partitions)
        # Where the producer's next transaction has begun, though no record says so.
        self.gone_on: set[TopicPartition] = set()
        self.fenced = False
        self._retry_ms = RETRY_FIRST_MS

    @property
    def is_done(self) -> bool:
        """Whether every partition has its marker."""
        return not self.missing

    def answered(self, errors: Mapping[TopicPartition, ErrorCode]) -> None:
        """What leaders answered."""
        for partition, error in errors.items():
            match MEANINGS.get(error, Meaning.RETRY):
                case Meaning.WRITTEN | Meaning.NOTHING_TO_END:
                    self.missing.discard(partition)
                case Meaning.GONE_ON:
                    self.missing.discard(partition)
                    if self.ending.version >= EPOCH_BUMPING_VERSION:
                        self.gone_on.add(partition)
                case Meaning.FENCED:
                    self.fenced = True
                case Meaning.RETRY:
                    pass

    def deleted(self, partition: TopicPartition) -> None:
        """The partition does not exist any more."""
        self.missing.discard(partition)

    def next_retry_ms(self) -> int:
        """How long to wait before the next try."""
        wait_ms = self._retry_ms
        self._retry_ms = min(self._retry_ms * 2, RETRY_LONGEST_MS)
        return wait_ms
