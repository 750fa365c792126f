"""One pass of compaction over a log: read the keys of its dirty part, then write its segments anew without what is
superseded.

Works on sealed segments and may run in a thread beside appends and reads. Segments are compacted in groups, oldest
first, and each group takes its place in the log before the next is begun: a tombstone never goes before the records it
deletes. `compact_now` does all of it in one thread, for tools and tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from tidelog.env.files import Files
from tidelog.log.batch_filter import BatchFilter, placeholder
from tidelog.log.cleanable import DirtySpan, LogView, SealedSegment, dirty_span, view_of
from tidelog.log.cleaned_segment import CleanedSegment
from tidelog.log.errors import CorruptLog
from tidelog.log.key_offsets import KeyOffsets, new_key_offsets
from tidelog.log.offset_index import RELATIVE_OFFSET_MAX
from tidelog.log.partition import PartitionLog
from tidelog.log.record_lot import RecordLot
from tidelog.log.repair import EVERYWHERE, valid_batches
from tidelog.log.segment import Segment
from tidelog.log.transaction_index import AbortedTransaction, TransactionIndex
from tidelog.log.transaction_trail import TransactionTrail
from tidelog.model.errors import ProtocolError
from tidelog.model.ids import Offset
from tidelog.wire.batch import CONTROL_FLAG, TRANSACTIONAL_FLAG, BatchHeader, read_header

KEYS_BYTES_MAX: Final = 128 * 1024 * 1024

# Told of every batch that was read, and how many bytes it has: waits where there must not be more, raises to stop.
Pace = Callable[[int], None]


class CleanedGroup(NamedTuple):
    """Segments and what they became. The new files wait for their swap."""

    old: tuple[Segment, ...]
    base_offset: Offset
    bytes_before: int
    bytes_after: int


class CompactionPass:
    """Compacts one log as far as its memory for keys reaches. Raises OSError and CorruptLog."""

    def __init__(
        self, view: LogView, span: DirtySpan, files: Files, now_ms: int, *, keys_bytes_max: int, pace: Pace
    ) -> None:
        self._view = view
        self._files = files
        self._now_ms = now_ms
        self._pace = pace
        self.start = span.start
        # Up to where the log is compacted when all groups are done.
        self.end = span.end
        # All records from here to the end were noted.
        self._keys_start = span.end
        self._keys_bytes_max = keys_bytes_max
        self.records_read = 0

    def groups(self) -> Iterator[CleanedGroup]:
        """Compact one group after the other. A group whose records all stay is left as it is."""
        aborted = [one for path in self._view.transaction_indexes for one in TransactionIndex(self._files, path).all()]
        keys = self._read_keys(aborted)
        keys.complete()
        sealed = [segment for segment in self._view.sealed if segment.base_offset < self.end]
        config = self._view.config
        trail = TransactionTrail(aborted, sealed[0].base_offset)
        batch_filter = BatchFilter(
            keys,
            self._keys_start,
            self.end,
            trail,
            self._view.last_of_producers,
            self._now_ms,
            config.delete_retention_ms,
        )
        for group in grouped(sealed, config.segment_bytes):
            cleaned = CleanedSegment(
                self._files, self._view.directory, group[0].base_offset, config.index_interval_bytes
            )
            try:
                changed = self._rewrite(group, cleaned, batch_filter)
                if changed:
                    cleaned.complete()
            except BaseException:
                cleaned.discard()
                raise
            if not changed:
                cleaned.discard()
                continue
            yield CleanedGroup(
                tuple(one.segment for one in group),
                cleaned.base_offset,
                sum(one.size for one in group),
                cleaned.size,
            )

    def _read_keys(self, aborted: list[AbortedTransaction]) -> KeyOffsets:
        """Note the keys from the start on, to the end or as far as they fit, which is the end then."""
        keys: KeyOffsets | None = None
        trail = TransactionTrail(aborted, self.start)
        for segment in self._view.sealed:
            if segment.next_offset <= self.start or segment.base_offset >= self.end:
                continue
            lot = RecordLot()
            try:
                for header, batch in self._batches(segment):
                    if header.last_offset < self.start:
                        continue
                    lot.span_bytes += len(batch)
                    if header.attributes & CONTROL_FLAG:
                        trail.is_needless(header, batch)
                        continue
                    if header.attributes & TRANSACTIONAL_FLAG and trail.is_aborted(header):
                        continue
                    if keys is None:
                        self._keys_start = Offset(header.base_offset)
                        records_max = self.end - header.base_offset
                        keys = new_key_offsets(self._keys_bytes_max, records_max, header.records_count)
                    if lot.is_full or not keys.has_room(lot.records_count + header.records_count):
                        self._note(keys, lot)
                        lot = RecordLot()
                        if not keys.has_room(header.records_count):
                            self.end = Offset(header.base_offset)
                            return keys
                    lot.add(header, batch)
                if keys is not None:
                    self._note(keys, lot)
            except ProtocolError as error:
                raise self._corrupt(segment, error) from error
        return new_key_offsets(0, 0, 0) if keys is None else keys

    def _note(self, keys: KeyOffsets, lot: RecordLot) -> None:
        keys.note(lot)
        self.records_read += lot.records_count

    def _rewrite(self, group: list[SealedSegment], cleaned: CleanedSegment, batch_filter: BatchFilter) -> bool:
        """Write what remains of a group; returns whether that differs from what is there."""
        changed = len(group) > 1
        leader_epoch = -1
        last_offset = group[-1].next_offset - 1
        for segment in group:
            try:
                for header, batch, remains in batch_filter.filtered(self._batches(segment), last_offset):
                    leader_epoch = header.leader_epoch
                    if remains is batch:
                        cleaned.add(header, batch)
                        continue
                    changed = True
                    if remains is not None:
                        cleaned.add(read_header(remains), remains)
            except ProtocolError as error:
                raise self._corrupt(segment, error) from error
            cleaned.add_aborted(batch_filter.trail.kept)
            batch_filter.trail.kept.clear()
            if segment.next_offset > self.end:
                index = TransactionIndex(self._files, self._view.transaction_index_path(segment))
                cleaned.add_aborted(one for one in index.all() if one.last_offset >= self.end)
        if cleaned.last_offset < last_offset:
            # A recovery must see which segments this one replaces, and that nothing is missing behind it.
            filler = placeholder(last_offset, leader_epoch)
            cleaned.add(read_header(filler), filler)
        return changed

    def _batches(self, segment: SealedSegment) -> Iterator[tuple[BatchHeader, memoryview]]:
        file = self._files.open(self._view.log_path(segment))
        end = 0
        try:
            for position, header, batch in valid_batches(file, segment.size, segment.base_offset, EVERYWHERE):
                self._pace(len(batch))
                yield header, batch
                end = position + len(batch)
        finally:
            file.close()
        if end != segment.size:
            raise CorruptLog(f"{self._view.log_path(segment)} has no valid batch at {end}")

    def _corrupt(self, segment: SealedSegment, error: ProtocolError) -> CorruptLog:
        return CorruptLog(f"{self._view.log_path(segment)} has a batch that cannot be read: {error}")


def grouped(segments: list[SealedSegment], bytes_max: int) -> list[list[SealedSegment]]:
    """Neighbours that together are no larger than one segment may be."""
    groups: list[list[SealedSegment]] = []
    size = 0
    for segment in segments:
        size += segment.size
        if groups and size <= bytes_max and segment.next_offset - 1 - groups[-1][0].base_offset <= RELATIVE_OFFSET_MAX:
            groups[-1].append(segment)
        else:
            groups.append([segment])
            size = segment.size
    return groups


def no_pace(_bytes: int) -> None:
    """As fast as it goes."""


def compact_now(
    log: PartitionLog,
    compacted_up_to: Offset,
    stable_offset: Offset,
    now_ms: int,
    *,
    keys_bytes_max: int = KEYS_BYTES_MAX,
    always: bool = False,
) -> Offset:
    """Compact a log in one pass, if it is time (or `always`); returns up to where it is compacted then."""
    files = log.open_files.files
    view = view_of(log, compacted_up_to, stable_offset)
    span = dirty_span(view, files, now_ms)
    if span is None and always and view.sealed and view.sealed[-1].next_offset > view.first_dirty_offset:
        span = DirtySpan(view.first_dirty_offset, view.sealed[-1].next_offset, 1.0)
    if span is None:
        return compacted_up_to
    compaction = CompactionPass(view, span, files, now_ms, keys_bytes_max=keys_bytes_max, pace=no_pace)
    for group in compaction.groups():
        if log.begin_swap(group.old):
            files.sync_directory(log.directory)
            log.finish_swap()
    files.sync_directory(log.directory)
    return compaction.end
