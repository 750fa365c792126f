"""When a batch starts a new segment: it does not fit any more, its offset cannot be indexed, or the segment is old.

Asked by `log/log_end.py` when its quick checks say that it may be so. It only decides.
"""

from __future__ import annotations

from tidelog.env.clock import Clock
from tidelog.log.segment import Segment


def roll_is_due(segment: Segment, length: int, last_offset: int, timestamp: int, segment_ms: int, clock: Clock) -> bool:
    """Whether this batch must not be added to `segment`. An empty one takes every batch that it can index."""
    if last_offset > segment.last_offset_max:
        return True
    if not segment.staged_size:
        return False
    if segment.staged_size + length > segment.full_at:
        return True
    first = segment.first_timestamp
    if first is not None and first >= 0:
        return timestamp - first > segment_ms
    return clock.now_ms() - segment.created_ms > segment_ms
