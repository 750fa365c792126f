"""`tidelog log recover`: the repair that a broker makes after a crash, on every segment of a log."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from tidelog.cli.failures import BadInput
from tidelog.cli.log_description import is_partition
from tidelog.cli.log_metadata import topic_config_of
from tidelog.cli.output import Json
from tidelog.env.clock import RealClock
from tidelog.env.files import File, RealFiles
from tidelog.log.audit import PartitionAudit, Severity, audit_partition
from tidelog.log.audit_directory import partitions_in, read_checkpoints
from tidelog.log.checkpoints import CLEANER_OFFSET_FILE, LOG_START_FILE
from tidelog.log.config import LogConfig
from tidelog.log.directory import LOCK_FILE, partition_of
from tidelog.log.open_files import OpenFiles
from tidelog.log.recovery import open_log
from tidelog.log.repair import EVERYWHERE, valid_batches
from tidelog.model.ids import Offset, TopicPartition


def recover_folder(folder: Path, topics: tuple[str, ...], *, dry_run: bool) -> list[Json]:
    """Recover one partition, or all of a log directory; what was found and done."""
    folder = folder.resolve()
    partition = partition_of(folder.name)
    if is_partition(folder) and partition is not None:
        directory, partitions = folder.parent, [partition]
    else:
        directory = folder
        partitions = [one for one in partitions_in(RealFiles(), str(folder)) if not topics or one.topic in topics]
    with _locked(directory):
        return [_recover(directory, one, dry_run=dry_run) for one in partitions]


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    lock: File | None = None
    try:
        # A partition's folder that was copied somewhere has no lock to take.
        if (directory / LOCK_FILE).exists():
            lock = RealFiles().lock(str(directory / LOCK_FILE))
        yield
    except BlockingIOError:
        raise BadInput(f"{directory} is in use by a broker. Stop it first.") from None
    finally:
        if lock is not None:
            lock.close()


def _recover(directory: Path, partition: TopicPartition, *, dry_run: bool) -> Json:
    files = RealFiles()
    folder = str(directory / str(partition))
    checkpoints = read_checkpoints(files, str(directory))
    compacted = checkpoints.of(CLEANER_OFFSET_FILE, partition) or Offset(0)
    before = audit_partition(files, folder, with_records=False, compacted_up_to=compacted)
    topic = topic_config_of(directory, partition.topic, {})
    is_compacted = topic.is_compacted or before.is_compacted
    if dry_run:
        end, kept_bytes = _valid_part(files, folder, before, is_compacted=is_compacted, compacted=compacted)
    else:
        log = open_log(
            partition,
            folder,
            OpenFiles(files),
            RealClock(),
            LogConfig(
                segment_bytes=topic.roll_bytes,
                segment_index_bytes=topic.segment_index_bytes,
                index_interval_bytes=topic.index_interval_bytes,
                compacted=is_compacted,
            ),
            clean=False,
            start_offset=checkpoints.of(LOG_START_FILE, partition) or Offset(0),
            compacted_up_to=compacted,
        )
        log.close()
        end, kept_bytes = log.end_offset, log.size_bytes
    return {
        "partition": str(partition),
        "end_offset_before": before.end_offset,
        "end_offset_after": end,
        "cut_bytes": sum(segment.size for segment in before.segments) - kept_bytes,
        "problems": sorted({finding.kind for finding in before.findings if finding.severity is not Severity.NOTED}),
    }


def _valid_part(
    files: RealFiles, folder: str, audit: PartitionAudit, *, is_compacted: bool, compacted: Offset
) -> tuple[Offset, int]:
    """Where the log would end, and how many bytes would stay."""
    end = audit.segments[0].base_offset if audit.segments else Offset(0)
    kept_bytes = 0
    for number, segment in enumerate(audit.segments):
        if number and not (segment.base_offset == end or end < segment.base_offset <= compacted):
            break
        file = files.open(f"{folder}/{segment.base_offset:020d}.log")
        valid_bytes = 0
        try:
            gaps_below = EVERYWHERE if is_compacted else compacted
            for position, header, batch in valid_batches(file, segment.size, segment.base_offset, gaps_below):
                end, valid_bytes = header.next_offset, position + len(batch)
        finally:
            file.close()
        kept_bytes += valid_bytes
        if valid_bytes < segment.size:
            break
    return end, kept_bytes
