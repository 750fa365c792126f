"""Checks the folder of a partition, or a whole log directory, for people: everything that is wrong, nothing changed.

Used by `tidelog log verify` and `tidelog log describe`. It takes no lock, so what a running broker is writing at the
moment may look torn.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from itertools import pairwise
from typing import Final, NamedTuple

from tidelog.env.files import Files, read_all
from tidelog.log.audit_batches import Damage, SeenBatch, seen_batches
from tidelog.log.audit_indexes import SeenSpan, offset_index_damages, time_index_damages, transaction_index_damages
from tidelog.log.checkpoints import PARTITION_METADATA_FILE, TEMPORARY_SUFFIX, read_topic_id
from tidelog.log.epochs import LEADER_EPOCH_FILE, LeaderEpochs
from tidelog.log.errors import CorruptLog
from tidelog.log.markers import read_marker
from tidelog.log.producer_snapshots import decode_snapshot
from tidelog.log.producers import Producers
from tidelog.log.segment import (
    ARCHIVE_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    file_name,
)
from tidelog.log.swap import CLEANED_SUFFIX, SWAP_SUFFIX
from tidelog.log.transaction_index import AbortedTransaction
from tidelog.model.ids import NO_EPOCH, Offset
from tidelog.wire.batch import BatchHeader

_UNFINISHED: Final = (CLEANED_SUFFIX, SWAP_SUFFIX, DELETED_SUFFIX, TEMPORARY_SUFFIX, ARCHIVE_SUFFIX)


class Severity(Enum):
    """DAMAGED: records are lost or wrong. DERIVED: a file that a broker makes again. NOTED: unusual, not wrong."""

    DAMAGED = "damaged"
    DERIVED = "derived"
    NOTED = "noted"


class Finding(NamedTuple):
    """One thing that somebody should know."""

    severity: Severity
    kind: str
    path: str
    text: str
    position: int | None = None
    offset: int | None = None


class SegmentSummary(NamedTuple):
    """What a segment file holds."""

    base_offset: Offset
    next_offset: Offset
    size: int
    batches: int
    records: int
    largest_timestamp: int


class PartitionAudit(NamedTuple):
    """What was found in the folder of a partition."""

    segments: list[SegmentSummary]
    findings: list[Finding]
    # Whether records are missing where only compaction takes them.
    is_compacted: bool = False

    @property
    def end_offset(self) -> Offset:
        return self.segments[-1].next_offset if self.segments else Offset(0)


def audit_partition(
    files: Files, folder: str, *, with_records: bool = True, compacted_up_to: Offset = Offset(0)
) -> PartitionAudit:
    """Look at everything in a folder. Raises OSError when it cannot be read."""
    return _Audit(files, folder, with_records=with_records, compacted_up_to=compacted_up_to).run()


class _Audit:
    def __init__(self, files: Files, folder: str, *, with_records: bool, compacted_up_to: Offset) -> None:
        self._files = files
        self._folder = folder
        self._with_records = with_records
        self._compacted_up_to = compacted_up_to
        self._names = sorted(entry.name for entry in files.list(folder) if not entry.is_directory)
        self._findings: list[Finding] = []
        self._producers = Producers()
        self._is_compacted = False
        self._last_epoch = int(NO_EPOCH)
        self._epochs: LeaderEpochs | None = None
        self._gaps: list[Finding] = []

    def run(self) -> PartitionAudit:
        self._read_epochs()
        bases = [Offset(int(name[:20])) for name in self._names if _is_numbered(name, LOG_SUFFIX)]
        segments: list[SegmentSummary] = []
        for number, base in enumerate(bases):
            self._check_snapshot(base)
            before = segments[-1].next_offset if segments else base
            segments.append(self._segment(base, before, is_sealed=number + 1 < len(bases)))
        end = segments[-1].next_offset if segments else Offset(0)
        if end not in bases:
            self._check_snapshot(end)
        if not self._is_compacted:
            # Nothing in this log was ever compacted, so an offset that is not there is missing.
            self._findings += self._gaps
        self._check_names(bases, end)
        self._check_overlaps(segments)
        return PartitionAudit(segments, self._findings, self._is_compacted)

    # Files beside the segments

    def _read_epochs(self) -> None:
        try:
            self._epochs = LeaderEpochs.read(self._files, self._folder)
        except CorruptLog as error:
            self._note(Severity.DERIVED, LEADER_EPOCH_FILE, Damage("epochs", str(error)))

    def _check_names(self, bases: list[Offset], end: Offset) -> None:
        known = {file_name(base, LOG_SUFFIX)[:20] for base in bases}
        for name in self._names:
            if name.endswith(_UNFINISHED):
                self._note(Severity.NOTED, name, Damage("leftover", "is no part of the log; the next start sees to it"))
            elif name.endswith(SEGMENT_SUFFIXES) and name[:20] not in known:
                self._note(Severity.DERIVED, name, Damage("orphan", "belongs to no segment"))
            elif name.endswith(SNAPSHOT_SUFFIX) and name[:20].isdigit() and int(name[:20]) > end:
                self._note(Severity.DERIVED, name, Damage("snapshot", f"is of an offset behind the end {end}"))
        if PARTITION_METADATA_FILE in self._names and read_topic_id(self._files, self._folder) is None:
            self._note(Severity.DERIVED, PARTITION_METADATA_FILE, Damage("topic-id", "cannot be understood"))

    def _check_snapshot(self, offset: Offset) -> None:
        """Hold a snapshot of the producers against what the batches before it say."""
        name = file_name(offset, SNAPSHOT_SUFFIX)
        if name not in self._names:
            return
        try:
            entries = decode_snapshot(read_all(self._files, self._path(name)), name)
        except CorruptLog as error:
            self._note(Severity.DERIVED, name, Damage("snapshot", str(error)))
            return
        for entry in entries:
            seen = self._producers.entry(entry.producer_id)
            if seen is None or not seen.batches or not entry.batches:
                continue
            if (seen.epoch, seen.batches[-1].last_sequence) != (entry.epoch, entry.batches[-1].last_sequence):
                text = (
                    f"producer {entry.producer_id} is at sequence {entry.batches[-1].last_sequence} of epoch "
                    f"{entry.epoch}, in the log at {seen.batches[-1].last_sequence} of {seen.epoch}"
                )
                self._note(Severity.DERIVED, name, Damage("snapshot", text))

    def _check_overlaps(self, segments: list[SegmentSummary]) -> None:
        for earlier, later in pairwise(segments):
            if later.base_offset < earlier.next_offset:
                text = f"begins before the end {earlier.next_offset} of the segment before it"
                self._note(Severity.DAMAGED, file_name(later.base_offset, LOG_SUFFIX), Damage("overlap", text))

    # Segments

    def _segment(self, base: Offset, before: Offset, *, is_sealed: bool) -> SegmentSummary:
        name = file_name(base, LOG_SUFFIX)
        size = self._files.size(self._path(name))
        file = self._files.open(self._path(name))
        spans: list[SeenSpan] = []
        aborted: list[AbortedTransaction] = []
        records = 0
        expected = base
        if base > before and base > self._compacted_up_to:
            self._gap(name, before, base, 0)
        try:
            for seen in seen_batches(file, size, with_records=self._with_records):
                for damage in seen.damages:
                    offset = None if seen.header is None else seen.header.base_offset
                    self._note(Severity.DAMAGED, name, damage, seen.position, offset)
                header = seen.header
                if header is None:
                    continue
                self._check_place(name, seen.position, header, expected)
                if not seen.damages:
                    self._check_epoch(name, seen.position, header)
                    aborted += self._replay(seen)
                spans.append(SeenSpan(seen.position, header.base_offset, header.last_offset, header.max_timestamp))
                records += max(header.records_count, 0)
                if not seen.damages:
                    self._is_compacted |= header.records_count != header.last_offset_delta + 1
                expected = max(expected, header.next_offset)
        finally:
            file.close()
        self._check_indexes(base, spans, aborted, size, is_sealed=is_sealed)
        largest = max((span.max_timestamp for span in spans), default=-1)
        return SegmentSummary(base, expected, size, len(spans), records, largest)

    def _check_place(self, name: str, position: int, header: BatchHeader, expected: Offset) -> None:
        offset = header.base_offset
        if offset < expected:
            damage = Damage("order", f"offset {offset} comes after {expected - 1}")
            self._note(Severity.DAMAGED, name, damage, position, offset)
        elif offset > expected and expected >= self._compacted_up_to:
            self._gap(name, expected, Offset(offset), position)

    def _gap(self, name: str, first: Offset, following: Offset, position: int) -> None:
        text = f"offsets {first} to {following - 1} are missing"
        self._gaps.append(Finding(Severity.DAMAGED, "gap", self._path(name), text, position, first))

    def _check_epoch(self, name: str, position: int, header: BatchHeader) -> None:
        epoch = header.leader_epoch
        if epoch < self._last_epoch:
            damage = Damage("epoch", f"leader epoch {epoch} comes after {self._last_epoch}")
            self._note(Severity.DAMAGED, name, damage, position, header.base_offset)
        elif self._epochs is not None and epoch >= 0 and self._epochs.epoch_at(Offset(header.base_offset)) != epoch:
            known = self._epochs.epoch_at(Offset(header.base_offset))
            damage = Damage("epoch", f"leader epoch {epoch} is {known} in {LEADER_EPOCH_FILE}")
            self._note(Severity.DERIVED, name, damage, position, header.base_offset)
        self._last_epoch = max(self._last_epoch, epoch)

    def _replay(self, seen: SeenBatch) -> Iterator[AbortedTransaction]:
        header = seen.header
        assert header is not None
        if not header.has_producer_id:
            return
        base = Offset(header.base_offset)
        if not header.is_control:
            self._producers.staged(header, base)
        else:
            marker = read_marker(seen.batch)
            completed = self._producers.staged_marker(header, base, marker) if marker else None
            if completed is not None and completed.aborted:
                yield AbortedTransaction(completed.producer_id, completed.first_offset, completed.last_offset, base)
        self._producers.written()

    def _check_indexes(
        self,
        base: Offset,
        spans: list[SeenSpan],
        aborted: list[AbortedTransaction],
        size: int,
        *,
        is_sealed: bool,
    ) -> None:
        files = self._files
        offsets, times, transactions = (
            file_name(base, suffix) for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
        )
        for damage in offset_index_damages(files, self._path(offsets), base, spans, size, is_sealed=is_sealed):
            self._note(Severity.DERIVED, offsets, damage)
        for damage in time_index_damages(files, self._path(times), base, spans, is_sealed=is_sealed):
            self._note(Severity.DERIVED, times, damage)
        try:
            path = self._path(transactions)
            for damage in transaction_index_damages(files, path, aborted, may_lack=self._is_compacted):
                self._note(Severity.DERIVED, transactions, damage)
        except CorruptLog as error:
            self._note(Severity.DERIVED, transactions, Damage("index-entry", str(error)))

    def _note(
        self, severity: Severity, name: str, damage: Damage, position: int | None = None, offset: int | None = None
    ) -> None:
        self._findings.append(Finding(severity, damage.kind, self._path(name), damage.text, position, offset))

    def _path(self, name: str) -> str:
        return f"{self._folder}/{name}"


def _is_numbered(name: str, suffix: str) -> bool:
    return len(name) == 20 + len(suffix) and name.endswith(suffix) and name[:20].isdigit()
