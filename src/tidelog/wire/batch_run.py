"""Batches for one partition that came one behind the other, taken through leader and log together.

Made by `wire/produce_run.py`, which has checked each of them; `replica/leader.py` and `log/log_end.py` take all of a
run or nothing. It never holds what was not checked, and its views are valid as long as the turn in which they came.
"""

from __future__ import annotations

from struct import Struct

from tidelog.model.ids import LeaderEpoch, Offset, ProducerId
from tidelog.wire.batch import LENGTH_OVERHEAD_BYTES

# The base offset, the length as it was, the leader epoch: one call writes them at the front of a batch.
pack_stamp = Struct(">qii").pack_into


class BatchRun:
    """Each of the batches has no producer id, or each is of one producer and the next of it, in or out of a transaction
    as the others are."""

    # Of the first batch. Without slots, so that what most batches do not have is not set for each.
    producer_id = ProducerId(-1)
    producer_epoch = base_sequence = -1
    attributes = 0

    def __init__(self, view: memoryview, records_count: int, max_timestamp: int) -> None:
        self.views = [view]
        self.record_counts = [records_count]
        self.max_timestamps = [max_timestamp]

    @property
    def last_offset_delta(self) -> int:
        """Of the first batch."""
        return self.record_counts[0] - 1

    def stamp(self, base_offset: Offset, leader_epoch: LeaderEpoch) -> list[Offset]:
        """Write offsets that follow each other, and the epoch; gives the offset of each, and the one after the last."""
        views, record_counts = self.views, self.record_counts
        if len(views) == 1:
            (view,) = views
            pack_stamp(view, 0, base_offset, len(view) - LENGTH_OVERHEAD_BYTES, leader_epoch)
            return [base_offset, Offset(base_offset + record_counts[0])]
        offset = base_offset
        offsets = [offset]
        for view, records_count in zip(views, record_counts, strict=True):
            pack_stamp(view, 0, offset, len(view) - LENGTH_OVERHEAD_BYTES, leader_epoch)
            offset = Offset(offset + records_count)
            offsets.append(offset)
        return offsets
