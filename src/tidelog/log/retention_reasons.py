"""Why each segment of a log is still there, in words. Says what `log/retention.py` decides; used by tools alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from tidelog.model.ids import Offset
from tidelog.model.topic_settings import TopicConfig

_UNITS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))


class KeptSegment(NamedTuple):
    """A segment as its files show it."""

    base_offset: Offset
    next_offset: Offset
    size: int
    largest_timestamp: int


def reasons(
    segments: Sequence[KeptSegment],
    config: TopicConfig,
    now_ms: int,
    start_offset: Offset,
    high_watermark: Offset,
    *,
    is_read_only: bool = False,
) -> list[str]:
    """One reason for each segment, oldest first."""
    found: list[str] = []
    surplus = sum(segment.size for segment in segments) - config.retention_bytes
    older_stays = False
    for number, segment in enumerate(segments):
        reason, goes = _reason(
            segment, config, now_ms, start_offset, high_watermark, surplus, is_last=number + 1 == len(segments)
        )
        if is_read_only:
            reason, goes = "it was restored and is read-only", False
        if goes and older_stays:
            reason, goes = "an older one is kept, and the oldest goes first", False
        if goes:
            surplus -= segment.size
        older_stays = older_stays or not goes
        found.append(reason)
    return found


def _reason(
    segment: KeptSegment,
    config: TopicConfig,
    now_ms: int,
    start_offset: Offset,
    high_watermark: Offset,
    surplus: int,
    *,
    is_last: bool,
) -> tuple[str, bool]:
    """Why it is there, and whether it goes with the next look at retention."""
    if is_last:
        return "it is the active one", False
    if segment.next_offset > high_watermark:
        return f"it is not below the high watermark {high_watermark}", False
    if segment.next_offset <= start_offset:
        return f"goes next: the log starts at {start_offset}", True
    if not config.is_deleted:
        return "cleanup.policy deletes no segments", False
    if config.retention_bytes >= 0 and surplus - segment.size >= 0:
        return "goes next: the log is larger than retention.bytes", True
    age_ms = now_ms - segment.largest_timestamp
    if config.retention_ms >= 0 and segment.largest_timestamp >= 0 and age_ms > config.retention_ms:
        return "goes next: it is older than retention.ms", True
    if config.retention_ms < 0:
        return "retention.ms sets no limit", False
    if segment.largest_timestamp < 0:
        return "its records have no time", False
    return f"it is younger than retention.ms: {_duration(config.retention_ms - age_ms)} left", False


def _duration(milliseconds: int) -> str:
    for size, unit in _UNITS:
        if milliseconds >= size:
            return f"{milliseconds / size:.1f} {unit}"
    return f"{milliseconds} ms"
