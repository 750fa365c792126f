"""What `tidelog log describe` tells of the files of logs: reads folders and never writes.

What the topics' settings are is read from the metadata log beside them.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tidelog.cli.log_files import LogFile, base_offset_of, offset_entries, time_entries
from tidelog.cli.log_metadata import topic_config_of
from tidelog.cli.output import Json
from tidelog.client.moments import show_moment
from tidelog.env.files import RealFiles
from tidelog.log.audit_directory import partitions_in, read_checkpoints
from tidelog.log.batch_walk import walk
from tidelog.log.checkpoints import (
    CLEANER_OFFSET_FILE,
    HIGH_WATERMARK_FILE,
    LOG_START_FILE,
    RECOVERY_POINT_FILE,
    read_only_start,
    read_topic_id,
)
from tidelog.log.directory import partition_of
from tidelog.log.retention_reasons import KeptSegment, reasons
from tidelog.model.errors import ProtocolError
from tidelog.model.ids import Offset

KEYS_SHOWN: Final = 10


def is_partition(folder: Path) -> bool:
    """Whether this is the folder of one partition."""
    return partition_of(folder.resolve().name) is not None and not (folder / "meta.properties").exists()


def describe_partitions(directory: Path, topics: tuple[str, ...]) -> dict[str, Json]:
    files = RealFiles()
    path = str(directory)
    checkpoints = read_checkpoints(files, path)
    rows = []
    for partition in partitions_in(files, path):
        if topics and partition.topic not in topics:
            continue
        segments = stored_segments(directory / str(partition))
        start = checkpoints.of(LOG_START_FILE, partition)
        rows.append(
            {
                "partition": str(partition),
                "segments": len(segments),
                "size_bytes": sum(segment.size for segment in segments),
                "start_offset": max(start or 0, segments[0].base_offset if segments else 0),
                "end_offset": segments[-1].next_offset if segments else 0,
                "high_watermark": checkpoints.of(HIGH_WATERMARK_FILE, partition),
                "recovery_point": checkpoints.of(RECOVERY_POINT_FILE, partition),
                "compacted_up_to": checkpoints.of(CLEANER_OFFSET_FILE, partition),
            }
        )
    return {"directory": path, "partitions": rows}


def describe_partition(folder: Path, configs: Mapping[str, str]) -> dict[str, Json]:
    files = RealFiles()
    folder = folder.resolve()
    partition = partition_of(folder.name)
    assert partition is not None
    checkpoints = read_checkpoints(files, str(folder.parent))
    segments = stored_segments(folder)
    config = topic_config_of(folder.parent, partition.topic, configs)
    start = checkpoints.of(LOG_START_FILE, partition) or Offset(segments[0].base_offset if segments else 0)
    high_watermark = checkpoints.of(HIGH_WATERMARK_FILE, partition)
    is_read_only = read_only_start(files, str(folder)) is not None
    why = reasons(
        segments,
        config,
        int(time.time() * 1000),
        start,
        high_watermark if high_watermark is not None else Offset(0),
        is_read_only=is_read_only,
    )
    topic_id = read_topic_id(files, str(folder))
    return {
        "partition": str(partition),
        "folder": str(folder),
        "topic_id": None if topic_id is None else str(topic_id),
        "start_offset": start,
        "end_offset": segments[-1].next_offset if segments else start,
        "high_watermark": high_watermark,
        "read_only": is_read_only,
        "segments": [
            {
                "base_offset": segment.base_offset,
                "next_offset": segment.next_offset,
                "size_bytes": segment.size,
                "largest_timestamp": segment.largest_timestamp,
                "largest_time": show_moment(segment.largest_timestamp) if segment.largest_timestamp >= 0 else None,
                "offset_index_entries": _count(folder, segment, ".index"),
                "time_index_entries": _count(folder, segment, ".timeindex"),
                "kept_because": reason,
            }
            for segment, reason in zip(segments, why, strict=True)
        ],
    }


def _count(folder: Path, segment: KeptSegment, suffix: str) -> int:
    path = folder / f"{segment.base_offset:020d}{suffix}"
    if not path.exists():
        return 0
    return len(offset_entries(path) if suffix == ".index" else time_entries(path))


def stored_segments(folder: Path) -> list[KeptSegment]:
    """The segments of a partition, by their names and indexes: a few headers are read, no records."""
    files = RealFiles()
    paths = sorted(path for path in folder.glob("*.log") if path.stem.isdigit())
    found = []
    for number, path in enumerate(paths):
        base = base_offset_of(path)
        size = path.stat().st_size
        following = base_offset_of(paths[number + 1]) if number + 1 < len(paths) else _end_of(files, path, base, size)
        found.append(KeptSegment(Offset(base), Offset(following), size, _largest_timestamp(files, path, size)))
    return found


def _end_of(files: RealFiles, path: Path, base: int, size: int) -> int:
    index = path.with_suffix(".index")
    entries = offset_entries(index) if index.exists() else []
    start = entries[-1][1] if entries and entries[-1][1] < size else 0
    following = base
    file = files.open(str(path))
    try:
        for landmark in walk(file, start, size):
            following = landmark.last_offset + 1
    finally:
        file.close()
    return following


def _largest_timestamp(files: RealFiles, path: Path, size: int) -> int:
    index = path.with_suffix(".timeindex")
    entries = time_entries(index) if index.exists() else []
    if entries:
        return entries[-1][0]
    file = files.open(str(path))
    try:
        return max((landmark.max_timestamp for landmark in walk(file, 0, size)), default=-1)
    finally:
        file.close()


def key_distribution(folder: Path) -> dict[str, Json]:
    """Read all records of a partition and count their keys."""
    counts: Counter[bytes] = Counter()
    sizes: Counter[bytes] = Counter()
    records = without_key = tombstones = 0
    for path in sorted(folder.glob("*.log")):
        for batch in LogFile(path).batches():
            if batch.header.is_control:
                continue
            try:
                found = batch.records()
            except ProtocolError:
                continue  # `verify` says what is wrong with it.
            for record in found:
                records += 1
                if record.key is None:
                    without_key += 1
                    continue
                tombstones += record.value is None
                counts[record.key] += 1
                sizes[record.key] += len(record.key) + len(record.value or b"")
    return {
        "records": records,
        "distinct_keys": len(counts),
        "without_key": without_key,
        "tombstones": tombstones,
        "superseded": records - without_key - len(counts),
        "largest": [
            {"key": key.decode(errors="replace"), "records": count, "bytes": sizes[key]}
            for key, count in counts.most_common(KEYS_SHOWN)
        ],
    }
