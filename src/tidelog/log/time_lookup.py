"""Finding a record by its timestamp: segment by its largest timestamp, batch by the time index, record by looking
through that one batch.

Called by `PartitionLog` for ListOffsets. Nothing but the times in one batch are decoded, and not even they when the
broker set them.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.log.batch_walk import Landmark, walk
from tidelog.log.record_lot import body_of
from tidelog.log.segment import Segment
from tidelog.log.time_index import TimestampedOffset
from tidelog.model.ids import Offset
from tidelog.wire import record_scan
from tidelog.wire.batch import read_header


def first_not_before(segments: Sequence[Segment], timestamp: int, start_offset: Offset) -> TimestampedOffset | None:
    """The first record at or after `start_offset` whose timestamp is `timestamp` or later."""
    for segment in segments:
        if segment.largest_timestamp().timestamp < timestamp:
            continue
        entry = segment.time_index.lookup(timestamp)
        position = segment.offset_index.lookup(max(entry.offset, start_offset))
        for landmark in walk(segment.opened(), position, segment.size):
            if landmark.max_timestamp >= timestamp and landmark.last_offset >= start_offset:
                found = _in_batch(segment, landmark, timestamp, start_offset)
                if found is not None:
                    return found
    return None


def largest(segments: Sequence[Segment], start_offset: Offset) -> TimestampedOffset | None:
    """The first record that has the largest timestamp of all."""
    newest: Segment | None = None
    for segment in segments:
        if segment.size and (
            newest is None or segment.largest_timestamp().timestamp > newest.largest_timestamp().timestamp
        ):
            newest = segment
    if newest is None or newest.largest_timestamp().timestamp < 0:
        return None
    timestamp, offset = newest.largest_timestamp()
    landmark = next(walk(newest.opened(), newest.position_of(offset), newest.size))
    return _in_batch(newest, landmark, timestamp, start_offset)


def _in_batch(segment: Segment, landmark: Landmark, timestamp: int, start_offset: Offset) -> TimestampedOffset | None:
    data = segment.opened().read(landmark.size, landmark.position)
    header = read_header(data)
    if header.is_log_append_time:
        return TimestampedOffset(header.max_timestamp, Offset(max(landmark.base_offset, start_offset)))
    base = header.base_offset
    # The times of a batch with a delete horizon count from its base timestamp all the same.
    found = record_scan.first_not_before(
        bytes(body_of(header, memoryview(data))),
        header.records_count,
        timestamp - header.base_timestamp,
        max(start_offset - base, 0),
    )
    return None if found is None else TimestampedOffset(header.base_timestamp + found[0], Offset(base + found[1]))
