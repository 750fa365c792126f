"""Checking the segments that a crash may have torn, and making everything derived from their batches again.

Every batch from the recovery point on is read and its CRC checked. The log is cut before the first that is not whole,
and indexes, leader epochs and producers are made in the same pass. Called by `log/recovery.py`.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple
from zlib import crc32

from tidelog.env.files import File
from tidelog.log.epochs import LeaderEpochs
from tidelog.log.errors import CorruptLog
from tidelog.log.offset_index import SKIP_WITHIN_SEGMENTS_MAX
from tidelog.log.producer_replay import load_producers, replay_batch
from tidelog.log.producer_snapshots import ProducerSnapshots
from tidelog.log.producers import Producers
from tidelog.log.segment import Segment
from tidelog.log.time_index import TimestampedOffset
from tidelog.model.ids import NO_TIMESTAMP, LeaderEpoch, Offset
from tidelog.wire.batch import (
    BATCH_LENGTH_MIN,
    CHECKED_POSITION,
    EPOCH_POSITION,
    HEADER_BYTES,
    LEGACY_LENGTH_MIN,
    LENGTH_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_POSITION,
    BatchHeader,
    read_header,
)
from tidelog.wire.crc import crc32c

# What is read at once while batches are checked.
SCAN_BYTES: Final = 4 * 1024 * 1024
# Where newer formats have the leader epoch, the old ones have a checksum of what follows it.
_LEGACY_CHECKSUM: Final = Struct(">I")


# Offsets of any batch may skip.
EVERYWHERE: Final = Offset(2**63 - 1)


class Gaps(NamedTuple):
    """Below which offsets some may be missing, as they are in a compacted log and in the log of its follower.

    Elsewhere a gap within a segment is a batch whose offset is damaged, and one between segments an end that the crash
    tore off: our compaction leaves a mark at the end of a segment, and a follower begins one where the last one ends.
    """

    within_segments_below: Offset
    between_segments_below: Offset


class Repaired(NamedTuple):
    """What is known after a repair. What was made again is not durable, so the recovery point is before all of it."""

    recovery_point: Offset
    producers: Producers


def repair(
    segments: list[Segment],
    recovery_point: Offset,
    gaps: Gaps,
    interval: int,
    epochs: LeaderEpochs,
    snapshots: ProducerSnapshots,
) -> Repaired:
    """Check the segments from the recovery point on, cut the log where it stops being valid. Changes its arguments."""
    first = max(bisect_right([segment.base_offset for segment in segments], recovery_point) - 1, 0)
    expected = base = segments[first].base_offset
    epochs.truncate_from_end(base)
    snapshots.remove_after(base)
    producers = load_producers(segments[:first], snapshots, base)
    for number in range(first, len(segments)):
        segment = segments[number]
        if number > first:
            if not _may_begin(segment.base_offset, expected, gaps.between_segments_below):
                _remove_from(segments, number)
                break
            with contextlib.suppress(OSError):  # It saves time later, no more.
                snapshots.take(segment.base_offset, producers)
        whole, expected = _repair_segment(segment, gaps.within_segments_below, interval, epochs, producers)
        if not whole:
            _remove_from(segments, number + 1)
            break
    producers.written()
    return Repaired(min(recovery_point, base), producers)


def _may_follow(offset: int, expected: int, gaps_below: int) -> bool:
    """Whether this offset may come next."""
    return offset == expected or expected < offset <= gaps_below


def _may_begin(base: int, expected: int, gaps_below: int) -> bool:
    """Whether a segment may begin here. A skip that is too large for a segment was synced before it was made."""
    return _may_follow(base, expected, gaps_below) or base - expected > SKIP_WITHIN_SEGMENTS_MAX


def _remove_from(segments: list[Segment], number: int) -> None:
    # The newest goes first: a crash in between leaves a log without a hole.
    removed = segments[number:]
    for segment in reversed(removed):
        segment.remove_files()
    if removed:
        removed[0].files.sync_directory(removed[0].directory)
    del segments[number:]


def _repair_segment(
    segment: Segment, gaps_below: Offset, interval: int, epochs: LeaderEpochs, producers: Producers
) -> tuple[bool, Offset]:
    """Cut a segment after its last good batch; returns whether nothing had to be cut, and the offset that follows."""
    size = segment.size
    segment.begin_rebuild()
    segment.transaction_index.reset()
    largest = TimestampedOffset(NO_TIMESTAMP, segment.base_offset)
    end = row_at = 0
    following = segment.base_offset
    for position, header, batch in valid_batches(segment.opened(), size, segment.base_offset, gaps_below):
        last = header.base_offset + header.last_offset_delta
        if header.max_timestamp > largest[0]:
            largest = TimestampedOffset(header.max_timestamp, Offset(last))
        if position - row_at > interval:
            segment.add_row(last, position, *largest)
            row_at = position
        if header.leader_epoch > epochs.latest:
            epochs.assign(LeaderEpoch(header.leader_epoch), Offset(header.base_offset))
        if header.producer_id >= 0:
            replay_batch(segment, header, batch, producers)
        end = position + len(batch)
        following = Offset(last + 1)
    segment.end_rebuild(end, largest)
    return end == size, following


def valid_batches(
    file: File, size: int, first_offset: Offset, gaps_below: Offset
) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """(position, header, bytes) of every batch up to the first that is torn, corrupt or out of order."""
    expected = int(first_offset)
    position = 0
    want = SCAN_BYTES
    while size - position >= HEADER_BYTES:
        piece = memoryview(file.read(min(want, size - position), position))
        want = SCAN_BYTES
        within = 0
        while len(piece) - within >= HEADER_BYTES:
            header = read_header(piece, within)
            length = header.batch_length + LENGTH_OVERHEAD_BYTES
            if (
                header.magic != MAGIC
                or header.batch_length < BATCH_LENGTH_MIN
                or header.last_offset_delta < 0
                or not _may_follow(header.base_offset, expected, gaps_below)
                or position + within + length > size
            ):
                _refuse_old_format(file, position + within, header, size)
                return
            following = within + length
            if following > len(piece):
                want = max(SCAN_BYTES, length)
                break
            if crc32c(piece[within + CHECKED_POSITION : following]) != header.crc:
                return
            yield position + within, header, piece[within:following]
            expected = header.base_offset + header.last_offset_delta + 1
            within = following
        position += within


def _refuse_old_format(file: File, position: int, header: BatchHeader, size: int) -> None:
    """A log of Apache Kafka before 0.11 must not be cut as if it were torn: its messages have their own checksum."""
    if header.magic not in (0, 1) or not LEGACY_LENGTH_MIN <= header.batch_length <= size - position:
        return
    message = memoryview(file.read(header.size_bytes, position))
    (checksum,) = _LEGACY_CHECKSUM.unpack_from(message, EPOCH_POSITION)
    if crc32(message[MAGIC_POSITION:]) == checksum:
        raise CorruptLog(f"{file.path} holds messages of the old format {header.magic}, which is not supported")
