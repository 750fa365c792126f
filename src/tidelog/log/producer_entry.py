"""One idempotent producer of a partition, as snapshots keep it and others are told of it. Never changed."""

from __future__ import annotations

from typing import Final

import msgspec

from tidelog.model.ids import NO_OFFSET, NO_TIMESTAMP, Offset, ProducerEpoch, ProducerId
from tidelog.wire.batch import NO_SEQUENCE, SEQUENCE_MASK

# A producer has at most five requests in flight, so a retry repeats one of the last five batches.
REMEMBERED_BATCHES: Final = 5


class ProducedBatch(msgspec.Struct, frozen=True, gc=False):
    """What is needed to recognise a batch when it comes again."""

    last_sequence: int
    last_offset: Offset
    offset_delta: int
    timestamp: int

    @property
    def base_offset(self) -> Offset:
        return Offset(self.last_offset - self.offset_delta)

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & SEQUENCE_MASK


class ProducerEntry(msgspec.Struct, frozen=True, gc=False):
    """The last five batches of a producer, or as many as there were, and where its open transaction began."""

    producer_id: ProducerId
    epoch: ProducerEpoch
    batches: tuple[ProducedBatch, ...] = ()
    last_timestamp: int = NO_TIMESTAMP
    coordinator_epoch: int = -1
    transaction_first_offset: Offset = NO_OFFSET

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE
