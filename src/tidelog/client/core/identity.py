"""Who an idempotent producer is to the brokers: an id and an epoch, in which sequences count (KIP-98, KIP-360)."""

from __future__ import annotations

from typing import Final

from tidelog.client.core.lines import Line
from tidelog.client.core.pending import Batch
from tidelog.model.ids import NO_PRODUCER, ProducerEpoch, ProducerId
from tidelog.wire.batch import NO_SEQUENCE, SEQUENCE_MASK
from tidelog.wire.records import NO_PRODUCER_EPOCH

EPOCH_MAX: Final = 2**15 - 1


class ProducerIdentity:
    """The id and epoch of a producer."""

    def __init__(self) -> None:
        self.producer_id: ProducerId = NO_PRODUCER
        self.epoch: ProducerEpoch = NO_PRODUCER_EPOCH

    @property
    def known(self) -> bool:
        return self.producer_id != NO_PRODUCER

    def begin(self, producer_id: ProducerId, epoch: ProducerEpoch) -> None:
        """Go on under an identity that a broker gave."""
        self.producer_id, self.epoch = producer_id, epoch

    def forget(self) -> None:
        """A broker has to give a new identity."""
        self.producer_id, self.epoch = NO_PRODUCER, NO_PRODUCER_EPOCH

    def bump(self) -> None:
        """Begin a new epoch, in which every partition counts from 0. Out of epochs: a new id is needed."""
        if self.epoch >= EPOCH_MAX:
            self.forget()
        else:
            self.epoch = ProducerEpoch(self.epoch + 1)

    def may_number(self, line: Line) -> bool:
        """Whether the next batch of a line may get a sequence now.

        Sequences of two epochs never mix: before a line goes over to a new one, the end of all it sent is known.
        """
        if not self.known:
            return False
        if line.needs_epoch and line.identity == (self.producer_id, self.epoch):
            return False
        return line.identity == (self.producer_id, self.epoch) or not line.unresolved

    def number(self, line: Line, batch: Batch) -> None:
        """Give a batch its sequence."""
        if line.identity != (self.producer_id, self.epoch):
            line.identity = (self.producer_id, self.epoch)
            line.next_sequence = 0
            line.needs_epoch = False
        batch.producer_id, batch.producer_epoch = line.identity
        batch.base_sequence = line.next_sequence
        line.next_sequence = (line.next_sequence + batch.count) & SEQUENCE_MASK


def take_number_back(batch: Batch) -> None:
    """The broker said for certain that the batch is not written: it may be sent under another number."""
    batch.producer_id, batch.producer_epoch, batch.base_sequence = NO_PRODUCER, NO_PRODUCER_EPOCH, NO_SEQUENCE
    batch.encoded = None
