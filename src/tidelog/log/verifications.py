"""Transactions that want to begin in a partition, and whether their coordinator has agreed (KIP-890).

A producer's first batch of a transaction is only taken when the coordinator knows that this partition belongs to it:
otherwise nobody would ever end it, and readers of committed records would wait for ever. The broker begins a
verification before it asks, and a marker that arrives in the meantime ends it: what was agreed to is over by then.
"""

from __future__ import annotations

from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import ProducerId
from tidelog.wire.batch import BatchHeader
from tidelog.wire.batch_run import BatchRun


class Verification:
    """One producer's wish to begin a transaction here."""

    __slots__ = ("began_ms", "epoch", "lowest_sequence", "outcome", "starts_at_zero")

    def __init__(self, epoch: int, sequence: int, starts_at_zero: bool, now_ms: int) -> None:
        self.epoch = epoch
        self.lowest_sequence = sequence
        # Every transaction of the second protocol has an epoch of its own, whose first batch has sequence 0.
        self.starts_at_zero = starts_at_zero
        self.began_ms = now_ms
        # What the coordinator said; None while it has not.
        self.outcome: ErrorCode | None = None


class Verifications:
    """The verifications of one partition, by producer."""

    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        self._by_producer: dict[ProducerId, Verification] = {}

    def __len__(self) -> int:
        return len(self._by_producer)

    def begin(
        self, producer_id: ProducerId, epoch: int, sequence: int, *, starts_at_zero: bool, now_ms: int
    ) -> Verification:
        """Note that a producer wants to begin a transaction; several batches on their way share one verification.

        While it lasts, no batch of a producer of which nothing is known here overtakes one with a lower sequence.
        """
        known = self._by_producer.get(producer_id)
        if known is None or epoch > known.epoch:
            self._by_producer[producer_id] = known = Verification(epoch, sequence, starts_at_zero, now_ms)
        elif epoch == known.epoch:
            known.lowest_sequence = min(known.lowest_sequence, sequence)
        return known

    def agreed(self, producer_id: ProducerId, verification: Verification, outcome: ErrorCode) -> bool:
        """The coordinator has answered. False when the verification is over: then the answer counts for nothing."""
        verification.outcome = outcome
        return self._by_producer.get(producer_id) is verification

    def has_agreed(self, producer_id: ProducerId, epoch: int) -> bool:
        """Whether the coordinator has agreed to a transaction that has not begun here yet."""
        known = self._by_producer.get(producer_id)
        return known is not None and known.epoch == epoch and known.outcome is ErrorCode.NONE

    def check(self, header: BatchHeader | BatchRun, is_known: bool) -> None:
        """Whether this batch may begin a transaction; raises what the producer is to be told when not."""
        verification = self._by_producer.get(ProducerId(header.producer_id))
        if verification is None or verification.epoch != header.producer_epoch or verification.outcome is None:
            raise ProtocolError(
                ErrorCode.INVALID_TXN_STATE,
                f"the transaction of producer {header.producer_id} is not known to include this partition",
            )
        if verification.outcome is not ErrorCode.NONE:
            raise ProtocolError(verification.outcome, "the coordinator of the transaction has refused this partition")
        if is_known:
            return  # Its sequence follows the last one: nothing is overtaken.
        sequence = header.base_sequence
        if sequence > verification.lowest_sequence:
            raise ProtocolError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"sequence {sequence} overtakes {verification.lowest_sequence}, which is not written yet",
            )
        if verification.starts_at_zero and sequence != 0:
            raise ProtocolError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"the first batch of producer {header.producer_id} has sequence {sequence} instead of 0",
            )

    def end(self, producer_id: ProducerId) -> None:
        """The transaction has begun."""
        self._by_producer.pop(producer_id, None)

    def end_by_marker(self, producer_id: ProducerId, epoch: int) -> None:
        """A transaction was ended, perhaps before it could begin here.

        In the second protocol a marker has the epoch of the transaction that comes next, which it does not concern: it
        may be one that a coordinator writes again, while the producer has gone on.
        """
        known = self._by_producer.get(producer_id)
        if known is not None and not (known.starts_at_zero and known.epoch >= epoch):
            del self._by_producer[producer_id]

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Forget producers that asked and never came back."""
        for producer_id, verification in list(self._by_producer.items()):
            if now_ms - verification.began_ms >= expiration_ms:
                del self._by_producer[producer_id]
