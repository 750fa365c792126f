"""Checks a whole log directory: every partition in it, and what its checkpoints say of them. Read-only, for people."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from tidelog.env.files import Files
from tidelog.log.audit import Finding, PartitionAudit, Severity, audit_partition
from tidelog.log.checkpoints import (
    CLEANER_OFFSET_FILE,
    HIGH_WATERMARK_FILE,
    LOG_START_FILE,
    META_PROPERTIES_FILE,
    RECOVERY_POINT_FILE,
    read_offsets,
    read_owner,
)
from tidelog.log.directory import partition_of
from tidelog.log.errors import CorruptLog
from tidelog.model.ids import Offset, TopicPartition

_OFFSET_FILES: Final = (RECOVERY_POINT_FILE, HIGH_WATERMARK_FILE, LOG_START_FILE, CLEANER_OFFSET_FILE)


class Checkpoints(NamedTuple):
    """What the files of a log directory say, and what is wrong with them."""

    offsets: dict[str, dict[TopicPartition, Offset]]
    findings: list[Finding]

    def of(self, name: str, partition: TopicPartition) -> Offset | None:
        return self.offsets.get(name, {}).get(partition)


def read_checkpoints(files: Files, path: str) -> Checkpoints:
    offsets: dict[str, dict[TopicPartition, Offset]] = {}
    findings = []
    for name in _OFFSET_FILES:
        try:
            offsets[name] = read_offsets(files, path, name)
        except CorruptLog as error:
            findings.append(Finding(Severity.DERIVED, "checkpoint", f"{path}/{name}", str(error)))
    try:
        read_owner(files, path)
    except CorruptLog as error:
        findings.append(Finding(Severity.DAMAGED, "owner", f"{path}/{META_PROPERTIES_FILE}", str(error)))
    return Checkpoints(offsets, findings)


def partitions_in(files: Files, path: str) -> list[TopicPartition]:
    """The partitions that have a folder here, the metadata log among them."""
    found = [partition_of(entry.name) for entry in files.list(path) if entry.is_directory]
    return sorted(partition for partition in found if partition is not None)


def audit_directory(
    files: Files,
    path: str,
    *,
    with_records: bool = True,
    wanted: Callable[[TopicPartition], bool] = lambda _: True,
) -> Iterator[tuple[TopicPartition | None, PartitionAudit]]:
    """One partition after the other; under None, first, what is wrong with the directory itself. Raises OSError."""
    checkpoints = read_checkpoints(files, path)
    yield None, PartitionAudit([], checkpoints.findings)
    for partition in partitions_in(files, path):
        if not wanted(partition):
            continue
        compacted = checkpoints.of(CLEANER_OFFSET_FILE, partition) or Offset(0)
        audit = audit_partition(files, f"{path}/{partition}", with_records=with_records, compacted_up_to=compacted)
        audit.findings.extend(_beyond_the_end(path, checkpoints, partition, audit))
        yield partition, audit


def _beyond_the_end(
    path: str, checkpoints: Checkpoints, partition: TopicPartition, audit: PartitionAudit
) -> Iterator[Finding]:
    """A checkpoint behind the end of its log: records are missing that were there when it was written."""
    for name in _OFFSET_FILES:
        offset = checkpoints.of(name, partition)
        if offset is not None and offset > audit.end_offset:
            text = f"{partition} is said to have {offset} and ends with {audit.end_offset}"
            yield Finding(Severity.DAMAGED, "checkpoint-beyond-end", f"{path}/{name}", text, None, offset)
