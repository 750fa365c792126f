"""What a `PartitionLog` is begun with: found on disk or made by `log/recovery.py`, which alone fills it."""

from __future__ import annotations

from typing import NamedTuple

from tidelog.log.epochs import LeaderEpochs
from tidelog.log.producer_snapshots import ProducerSnapshots
from tidelog.log.producers import Producers
from tidelog.log.segment import Segment
from tidelog.model.ids import Offset, TopicId


class LogState(NamedTuple):
    """What there is on disk, as found or made by whoever opens a log."""

    segments: list[Segment]
    start_offset: Offset
    end_offset: Offset
    recovery_point: Offset
    epochs: LeaderEpochs
    producers: Producers
    snapshots: ProducerSnapshots
    topic_id: TopicId | None
    # Whether it was closed cleanly, so that closing it again without a change has nothing to do.
    is_closed: bool
    # Whether it was restored from an archive: nothing is added and nothing expires.
    is_read_only: bool = False
