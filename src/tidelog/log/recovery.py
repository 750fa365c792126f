"""Opening the folder of a partition: trust it after a clean stop, otherwise have `log/repair.py` check it.

Sealed segments below the recovery point are known by name only, so that the time it takes does not grow with them.
Called when log directories are loaded, and for logs that live outside of them.
"""

from __future__ import annotations

from typing import Final

from tidelog.env.clock import Clock
from tidelog.env.files import Files
from tidelog.log.checkpoints import TEMPORARY_SUFFIX, read_only_start, read_topic_id
from tidelog.log.config import LogConfig
from tidelog.log.epochs import LeaderEpochs
from tidelog.log.errors import CorruptLog
from tidelog.log.log_state import LogState
from tidelog.log.open_files import OpenFiles
from tidelog.log.partition import PartitionLog
from tidelog.log.producer_replay import load_producers
from tidelog.log.producer_snapshots import ProducerSnapshots
from tidelog.log.producers import Producers
from tidelog.log.repair import EVERYWHERE, Gaps, repair
from tidelog.log.segment import (
    ARCHIVE_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    Segment,
)
from tidelog.log.swap import CLEANED_SUFFIX, complete_swaps
from tidelog.model.ids import Offset, TopicId, TopicPartition

_LEFTOVER_SUFFIXES: Final = (DELETED_SUFFIX, CLEANED_SUFFIX, TEMPORARY_SUFFIX)
_OFFSET_DIGITS: Final = 20


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
        topic_id=None,
        is_closed=False,
    )
    log = PartitionLog(partition, directory, open_files, clock, config, state)
    log.folder_was_made()
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
    bases, snapshot_offsets, awaiting_archive = _tidy_up(files, directory)
    read_only_from = read_only_start(files, directory)
    if read_only_from is not None:
        start_offset = max(start_offset, read_only_from)
    segments = [Segment(open_files, directory, base, config) for base in bases]
    snapshots = ProducerSnapshots(files, directory, snapshot_offsets)
    try:
        epochs = LeaderEpochs.read(files, directory)
    except CorruptLog:
        epochs, clean, recovery_point = LeaderEpochs(), False, Offset(0)
    producers: Producers | None = None
    if not segments:
        segments = [Segment.create(open_files, directory, start_offset, config, clock.now_ms())]
    elif not clean:
        gaps = Gaps(EVERYWHERE if config.compacted else compacted_up_to, compacted_up_to)
        recovery_point, producers = repair(
            segments, recovery_point, gaps, config.index_interval_bytes, epochs, snapshots
        )
    active = segments[-1]
    end = active.resume(clock.now_ms())
    if end < start_offset:
        # The log was cut below where its readers may start: nothing of it is wanted any more.
        for segment in reversed(segments):
            segment.remove_files()
        segments = [Segment.create(open_files, directory, start_offset, config, clock.now_ms())]
        end = start_offset
        producers = Producers()
    start = max(start_offset, segments[0].base_offset)
    epochs.truncate_from_end(end)
    epochs.truncate_from_start(segments[0].base_offset)
    snapshots.remove_after(end)
    snapshots.keep_only(segment.base_offset for segment in segments)
    if producers is None:
        producers = load_producers(segments, snapshots, end)
    producers.expire(clock.now_ms(), config.producer_expiration_ms)
    flushed = end if clean else min(max(recovery_point, start), end)
    topic_id = read_topic_id(files, directory)
    is_closed = clean and not epochs.dirty and end in snapshots.offsets
    state = LogState(
        segments,
        start,
        end,
        flushed,
        epochs,
        producers,
        snapshots,
        topic_id,
        is_closed,
        is_read_only=read_only_from is not None,
    )
    log = PartitionLog(partition, directory, open_files, clock, config, state)
    log.awaiting_archive.extend(awaiting_archive)
    return log


def _tidy_up(files: Files, directory: str) -> tuple[list[Offset], list[Offset], list[str]]:
    """Remove what is no part of the log; returns the base offsets of segments, the offsets of producer snapshots, and
    the files that wait to be archived."""
    complete_swaps(files, directory)
    names = [entry.name for entry in files.list(directory) if not entry.is_directory]
    bases = sorted(_offset_in(name) for name in names if _is_numbered(name, LOG_SUFFIX))
    known = set(bases)
    for name in names:
        orphan = any(_is_numbered(name, suffix) for suffix in SEGMENT_SUFFIXES) and _offset_in(name) not in known
        if orphan or name.endswith(_LEFTOVER_SUFFIXES):
            files.remove(f"{directory}/{name}")
    snapshot_offsets = [_offset_in(name) for name in names if _is_numbered(name, SNAPSHOT_SUFFIX)]
    awaiting = sorted(f"{directory}/{name}" for name in names if _is_numbered(name, LOG_SUFFIX + ARCHIVE_SUFFIX))
    return bases, snapshot_offsets, awaiting


def _is_numbered(name: str, suffix: str) -> bool:
    return len(name) == _OFFSET_DIGITS + len(suffix) and name.endswith(suffix) and name[:_OFFSET_DIGITS].isdigit()


def _offset_in(name: str) -> Offset:
    return Offset(int(name[:_OFFSET_DIGITS]))
