"""Opening the folder of a partition: trust it after a clean stop, otherwise check every batch past the recovery point.

What a crash left is cut at the first batch that is not whole, and everything derived (indexes, leader epochs,
producers) is made again from the batches. Sealed segments below the recovery point are known by name only. Called when
log directories are loaded.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final
from zlib import crc32

from tidelog.env.clock import Clock
from tidelog.env.files import File, Files
from tidelog.log.batch_walk import walk
from tidelog.log.checkpoints import TEMPORARY_SUFFIX, read_topic_id
from tidelog.log.config import LogConfig
from tidelog.log.epochs import LeaderEpochs
from tidelog.log.errors import CorruptLog
from tidelog.log.markers import read_marker
from tidelog.log.open_files import OpenFiles
from tidelog.log.partition import LogState, PartitionLog
from tidelog.log.producer_snapshots import ProducerSnapshots
from tidelog.log.producers import Producers
from tidelog.log.segment import DELETED_SUFFIX, LOG_SUFFIX, SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX, Segment
from tidelog.log.time_index import TimestampedOffset
from tidelog.log.transaction_index import AbortedTransaction
from tidelog.model.ids import NO_TIMESTAMP, LeaderEpoch, Offset, TopicId, TopicPartition
from tidelog.wire.batch import (
    BATCH_LENGTH_MIN,
    EPOCH_POSITION,
    HEADER_BYTES,
    LEGACY_LENGTH_MIN,
    MAGIC,
    MAGIC_POSITION,
    BatchHeader,
    is_crc_valid,
    read_header,
)

CLEANED_SUFFIX: Final = ".cleaned"
# What is read at once while batches are checked.
SCAN_BYTES: Final = 4 * 1024 * 1024
_LEFTOVER_SUFFIXES: Final = (DELETED_SUFFIX, CLEANED_SUFFIX, TEMPORARY_SUFFIX)
_OFFSET_DIGITS: Final = 20
# Where newer formats have the leader epoch, the old ones have a checksum of what follows it.
_LEGACY_CHECKSUM: Final = Struct(">I")
_EVERYWHERE: Final = Offset(2**63 - 1)


def create_log(
    partition: TopicPartition,
    directory: str,
    open_files: OpenFiles,
    clock: Clock,
    config: LogConfig,
    *,
    start_offset: Offset = Offset(0),
    topic_id: TopicId | None = None,
) -> PartitionLog:
    """Make the folder of a new partition with an empty first segment. Raises OSError."""
    files = open_files.files
    files.make_directory(directory)
    segment = Segment.create(open_files, directory, start_offset, config, clock.now_ms())
    state = LogState(
        [segment],
        start_offset,
        start_offset,
        start_offset,
        LeaderEpochs(),
        Producers(),
        ProducerSnapshots(files, directory),
        None,
    )
    log = PartitionLog(partition, directory, open_files, clock, config, state)
    log.folder_is_new = True
    state.epochs.write(files, directory, sync=False)
    if topic_id is not None:
        log.assign_topic_id(topic_id)
    return log


def open_log(
    partition: TopicPartition,
    directory: str,
    open_files: OpenFiles,
    clock: Clock,
    config: LogConfig,
    *,
    clean: bool,
    recovery_point: Offset = Offset(0),
    start_offset: Offset = Offset(0),
    compacted_up_to: Offset = Offset(0),
) -> PartitionLog:
    """Open the folder of an existing partition. Raises OSError, or CorruptLog for what cannot be repaired.

    `clean`: everything was written down before the last stop. The offsets are what the checkpoints say.
    """
    files = open_files.files
    bases, snapshot_offsets = _tidy_up(files, directory)
    segments = [Segment(open_files, directory, base, config) for base in bases]
    snapshots = ProducerSnapshots(files, directory, snapshot_offsets)
    try:
        epochs = LeaderEpochs.read(files, directory)
    except CorruptLog:
        epochs, clean, recovery_point = LeaderEpochs(), False, Offset(0)
    if not segments:
        segments = [Segment.create(open_files, directory, start_offset, config, clock.now_ms())]
    elif not clean:
        gaps_below = _EVERYWHERE if config.compacted else compacted_up_to
        recovery_point = _recover(segments, recovery_point, gaps_below, config.index_interval_bytes, epochs, snapshots)
    active = segments[-1]
    active.check_indexes()
    active.created_ms = clock.now_ms()
    end = active.next_offset()
    if end < start_offset:
        # The log was cut below where its readers may start: nothing of it is wanted any more.
        for segment in reversed(segments):
            segment.remove_files()
        segments = [Segment.create(open_files, directory, start_offset, config, clock.now_ms())]
        end = start_offset
    start = max(start_offset, segments[0].base_offset)
    epochs.truncate_from_end(end)
    epochs.truncate_from_start(segments[0].base_offset)
    snapshots.remove_after(end)
    snapshots.keep_only(segment.base_offset for segment in segments)
    producers = load_producers(segments, snapshots, end)
    producers.expire(clock.now_ms(), config.producer_expiration_ms)
    flushed = end if clean else min(max(recovery_point, start), end)
    state = LogState(segments, start, end, flushed, epochs, producers, snapshots, read_topic_id(files, directory))
    return PartitionLog(partition, directory, open_files, clock, config, state)


def _tidy_up(files: Files, directory: str) -> tuple[list[Offset], list[Offset]]:
    """Remove what is no part of the log; returns the base offsets of segments and the offsets of producer snapshots."""
    names = [entry.name for entry in files.list(directory) if not entry.is_directory]
    bases = sorted(_offset_in(name) for name in names if _is_numbered(name, LOG_SUFFIX))
    known = set(bases)
    for name in names:
        orphan = any(_is_numbered(name, suffix) for suffix in SEGMENT_SUFFIXES) and _offset_in(name) not in known
        if orphan or name.endswith(_LEFTOVER_SUFFIXES):
            files.remove(f"{directory}/{name}")
    return bases, [_offset_in(name) for name in names if _is_numbered(name, SNAPSHOT_SUFFIX)]


def _is_numbered(name: str, suffix: str) -> bool:
    return len(name) == _OFFSET_DIGITS + len(suffix) and name.endswith(suffix) and name[:_OFFSET_DIGITS].isdigit()


def _offset_in(name: str) -> Offset:
    return Offset(int(name[:_OFFSET_DIGITS]))


def _recover(
    segments: list[Segment],
    recovery_point: Offset,
    gaps_below: Offset,
    interval: int,
    epochs: LeaderEpochs,
    snapshots: ProducerSnapshots,
) -> Offset:
    """Check the segments from the recovery point on, cut the log where it ends to be valid.

    Returns the recovery point from now on: what was made again here is not durable before the next flush.
    """
    first = max(bisect_right([segment.base_offset for segment in segments], recovery_point) - 1, 0)
    epochs.truncate_from_end(segments[first].base_offset)
    snapshots.remove_after(segments[first].base_offset)
    expected = segments[first].base_offset
    for number in range(first, len(segments)):
        segment = segments[number]
        if number > first and not _may_follow(segment.base_offset, expected, gaps_below):
            _remove_from(segments, number)
            break
        whole, expected = _recover_segment(segment, gaps_below, interval, epochs)
        if not whole:
            _remove_from(segments, number + 1)
            break
    return min(recovery_point, segments[first].base_offset)


def _may_follow(offset: int, expected: int, gaps_below: int) -> bool:
    """Only compaction leaves gaps between offsets; anywhere else a gap is a hole that the crash tore."""
    return offset == expected or expected < offset <= gaps_below


def _remove_from(segments: list[Segment], number: int) -> None:
    # The newest goes first: a crash in between leaves a log without a hole.
    removed = segments[number:]
    for segment in reversed(removed):
        segment.remove_files()
    if removed:
        removed[0].files.sync_directory(removed[0].directory)
    del segments[number:]


def _recover_segment(segment: Segment, gaps_below: Offset, interval: int, epochs: LeaderEpochs) -> tuple[bool, Offset]:
    """Check all batches of a segment, cut it after the last good one and make its indexes again.

    Returns whether nothing had to be cut, and the offset that follows.
    """
    size = segment.size
    segment.begin_rebuild()
    segment.transaction_index.reset()
    largest = TimestampedOffset(NO_TIMESTAMP, segment.base_offset)
    end = row_at = 0
    following = segment.base_offset
    for position, header, _ in valid_batches(segment.opened(), size, segment.base_offset, gaps_below):
        last = header.base_offset + header.last_offset_delta
        if header.max_timestamp > largest.timestamp:
            largest = TimestampedOffset(header.max_timestamp, Offset(last))
        if position - row_at > interval:
            segment.add_row(last, position, *largest)
            row_at = position
        if header.leader_epoch > epochs.latest:
            epochs.assign(LeaderEpoch(header.leader_epoch), Offset(header.base_offset))
        end = position + header.size_bytes
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
            if (
                header.magic != MAGIC
                or header.batch_length < BATCH_LENGTH_MIN
                or header.last_offset_delta < 0
                or not _may_follow(header.base_offset, expected, gaps_below)
                or position + within + header.size_bytes > size
            ):
                _refuse_old_format(file, position + within, header, size)
                return
            if within + header.size_bytes > len(piece):
                want = max(SCAN_BYTES, header.size_bytes)
                break
            if not is_crc_valid(piece, header, within):
                return
            yield position + within, header, piece[within : within + header.size_bytes]
            expected = header.base_offset + header.last_offset_delta + 1
            within += header.size_bytes
        position += within


def _refuse_old_format(file: File, position: int, header: BatchHeader, size: int) -> None:
    """A log of Apache Kafka before 0.11 must not be cut as if it were torn: its messages have their own checksum."""
    if header.magic not in (0, 1) or not LEGACY_LENGTH_MIN <= header.batch_length <= size - position:
        return
    message = memoryview(file.read(header.size_bytes, position))
    (checksum,) = _LEGACY_CHECKSUM.unpack_from(message, EPOCH_POSITION)
    if crc32(message[MAGIC_POSITION:]) == checksum:
        raise CorruptLog(f"{file.path} holds messages of the old format {header.magic}, which is not supported")


def load_producers(segments: Sequence[Segment], snapshots: ProducerSnapshots, end: Offset) -> Producers:
    """The producers as of `end`: the newest snapshot, then the batches after it. Takes missing snapshots on the way."""
    found = snapshots.newest(at_most=end)
    known_up_to, entries = found or (segments[0].base_offset, [])
    producers = Producers(entries)
    if known_up_to >= end:
        return producers
    for segment in segments[max(bisect_right([one.base_offset for one in segments], known_up_to) - 1, 0) :]:
        if segment.base_offset > known_up_to:
            with contextlib.suppress(OSError):  # It saves time later, no more.
                snapshots.take(segment.base_offset, producers)
        _replay_producers(segment, max(known_up_to, segment.base_offset), producers)
    producers.written()
    return producers


def _replay_producers(segment: Segment, start: Offset, producers: Producers) -> None:
    file = segment.opened()
    for landmark in walk(file, segment.position_of(start), segment.size):
        header = read_header(file.read(HEADER_BYTES, landmark.position))
        if not header.has_producer_id:
            continue
        base = Offset(header.base_offset)
        if not header.is_control:
            producers.staged(header, base)
            continue
        marker = read_marker(file.read(landmark.size, landmark.position))
        completed = producers.staged_marker(header, base, marker) if marker else None
        if completed is not None and completed.aborted:
            stable = producers.last_stable_offset_after(completed)
            aborted = AbortedTransaction(completed.producer_id, completed.first_offset, completed.last_offset, stable)
            if aborted not in segment.transaction_index.all():
                segment.transaction_index.add(aborted)
