"""What a fetch brought for one partition, as bytes: handed to whoever makes records or columns of it."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.model.ids import NO_EPOCH, NO_OFFSET, LeaderEpoch, Offset, TopicPartition
from tidelog.wire.messages.fetch import AbortedTransaction


@dataclass(frozen=True, slots=True)
class FetchedChunk:
    """Record batches of one partition, as the broker keeps them.

    The first batch may begin before `position`, and the last one may be cut off: `core/record_reader.py` says what of
    it counts. `aborted` is None unless only committed records were asked for.
    """

    partition: TopicPartition
    data: memoryview
    position: Offset
    aborted: tuple[AbortedTransaction, ...] | None = None
    high_watermark: Offset = NO_OFFSET
    # The leader epoch of the last whole batch.
    last_epoch: LeaderEpoch = NO_EPOCH
