"""Which of a log's oldest segments may go: by age, by size, or because the log starts after them.

Decides only; `PartitionLog.delete_old_segments` renames and removes. A segment goes as a whole, oldest first, and
never before all of it is below the high watermark.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.log.config import LogConfig
from tidelog.log.segment import LOG_SUFFIX, Segment
from tidelog.model.ids import Offset


def deletable_count(
    segments: Sequence[Segment], config: LogConfig, now_ms: int, start_offset: Offset, high_watermark: Offset
) -> int:
    """How many segments from the oldest on may be deleted. The last segment counts when its records are too old."""
    if not config.deletes_old_segments:
        return _before_start(segments, start_offset, high_watermark)
    return max(
        _before_start(segments, start_offset, high_watermark),
        _too_old(segments, config.retention_ms, now_ms, high_watermark),
        _too_much(segments, config.retention_bytes, high_watermark),
    )


def _is_replicated(segments: Sequence[Segment], number: int, high_watermark: Offset) -> bool:
    """Whether all of a segment is below the high watermark; the last one, without a successor, the caller judges."""
    return number + 1 == len(segments) or segments[number + 1].base_offset <= high_watermark


def _before_start(segments: Sequence[Segment], start_offset: Offset, high_watermark: Offset) -> int:
    count = 0
    while (
        count + 1 < len(segments)
        and segments[count + 1].base_offset <= start_offset
        and _is_replicated(segments, count, high_watermark)
    ):
        count += 1
    return count


def _too_old(segments: Sequence[Segment], retention_ms: int, now_ms: int, high_watermark: Offset) -> int:
    if retention_ms < 0:
        return 0
    count = 0
    while (
        count < len(segments)
        and _is_replicated(segments, count, high_watermark)
        and now_ms - _age_timestamp(segments[count]) > retention_ms
    ):
        count += 1
    return count


def _age_timestamp(segment: Segment) -> int:
    """The largest timestamp of its records; when they have none, the time of the last write."""
    timestamp = segment.largest_timestamp().timestamp
    return timestamp if timestamp >= 0 else segment.files.modified_ms(segment.path(LOG_SUFFIX))


def _too_much(segments: Sequence[Segment], retention_bytes: int, high_watermark: Offset) -> int:
    if retention_bytes < 0:
        return 0
    surplus = sum(segment.size for segment in segments) - retention_bytes
    count = 0
    while (
        count + 1 < len(segments)
        and _is_replicated(segments, count, high_watermark)
        and surplus - segments[count].size >= 0
    ):
        surplus -= segments[count].size
        count += 1
    return count
