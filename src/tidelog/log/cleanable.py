"""Whether a log should be compacted now, and how far: by its dirty part, the age of its records, and what is settled.

`LogView` is taken by the thread that appends; from then on a compaction works in another thread on what never changes,
sealed segments. Only whole segments are compacted that are on the disk and hold nothing undecided.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from tidelog.env.files import Files
from tidelog.log.batch_filter import LastOfProducer
from tidelog.log.batch_walk import walk
from tidelog.log.config import NEVER, LogConfig
from tidelog.log.errors import CorruptLog
from tidelog.log.partition import PartitionLog
from tidelog.log.segment import LOG_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX, Segment, file_name
from tidelog.log.time_index import TimeIndex
from tidelog.model.ids import Offset, TopicPartition


class SealedSegment(NamedTuple):
    """A segment that is never appended to again; `segment` is only for whoever took the view."""

    base_offset: Offset
    next_offset: Offset
    size: int
    segment: Segment


class LogView(NamedTuple):
    """What a compaction may know of a log."""

    partition: TopicPartition
    directory: str
    config: LogConfig
    # The segments that are settled, and where the indexes of aborted transactions are, those of later segments too.
    sealed: tuple[SealedSegment, ...]
    transaction_indexes: tuple[str, ...]
    first_dirty_offset: Offset
    last_of_producers: dict[int, LastOfProducer]

    def log_path(self, segment: SealedSegment) -> str:
        return f"{self.directory}/{file_name(segment.base_offset, LOG_SUFFIX)}"

    def transaction_index_path(self, segment: SealedSegment) -> str:
        return f"{self.directory}/{file_name(segment.base_offset, TRANSACTION_INDEX_SUFFIX)}"


class DirtySpan(NamedTuple):
    """The offsets whose keys are read, and how much of the log that is."""

    start: Offset
    end: Offset
    ratio: float


def view_of(log: PartitionLog, compacted_up_to: Offset, stable_offset: Offset) -> LogView:
    """Take a view of a log. `stable_offset`: up to where everything is replicated and every transaction decided."""
    segments = log.segments
    settled = min(stable_offset, log.recovery_point)
    sealed = tuple(
        SealedSegment(segment.base_offset, following.base_offset, segment.size, segment)
        for segment, following in pairwise(segments)
        if following.base_offset <= settled
    )
    start = max(log.start_offset, segments[0].base_offset)
    # A checkpoint that cannot be true is of a log that was cut or begun again.
    first_dirty = compacted_up_to if start <= compacted_up_to <= segments[-1].base_offset else start
    return LogView(
        log.partition,
        log.directory,
        log.config,
        sealed,
        tuple(segment.path(TRANSACTION_INDEX_SUFFIX) for segment in segments),
        first_dirty,
        {
            entry.producer_id: LastOfProducer(entry.batches[-1].last_offset if entry.batches else None, entry.epoch)
            for entry in log.producers.entries()
        },
    )


def dirty_span(view: LogView, files: Files, now_ms: int) -> DirtySpan | None:
    """What is to be compacted now; None when it is too little or too young. Raises OSError."""
    config = view.config
    dirty: list[SealedSegment] = []
    clean_bytes = 0
    for segment in view.sealed:
        if segment.next_offset <= view.first_dirty_offset:
            clean_bytes += segment.size
        elif (
            config.min_compaction_lag_ms
            and now_ms - _largest_timestamp(view, files, segment) < config.min_compaction_lag_ms
        ):
            break
        else:
            dirty.append(segment)
    dirty_bytes = sum(segment.size for segment in dirty)
    if not dirty_bytes:
        return None
    ratio = dirty_bytes / (clean_bytes + dirty_bytes)
    if ratio <= config.min_cleanable_dirty_ratio and not _waited_too_long(view, files, dirty, now_ms):
        return None
    return DirtySpan(view.first_dirty_offset, dirty[-1].next_offset, ratio)


def _largest_timestamp(view: LogView, files: Files, segment: SealedSegment) -> int:
    path = f"{view.directory}/{file_name(segment.base_offset, TIME_INDEX_SUFFIX)}"
    try:
        newest = TimeIndex(files, path, segment.base_offset).on_disk().newest().timestamp
    except CorruptLog:
        newest = -1  # It is made again when somebody looks something up.
    return newest if newest >= 0 else files.modified_ms(view.log_path(segment))


def _waited_too_long(view: LogView, files: Files, dirty: list[SealedSegment], now_ms: int) -> bool:
    """max.compaction.lag.ms counts from the first batch that was not compacted."""
    if view.config.max_compaction_lag_ms >= NEVER:
        return False
    for segment in dirty:
        file = files.open(view.log_path(segment))
        try:
            first = next(walk(file, 0, file.size()), None)
        finally:
            file.close()
        if first is not None and first.max_timestamp >= 0:
            return now_ms - first.max_timestamp > view.config.max_compaction_lag_ms
    return False
