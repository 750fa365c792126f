"""What remains of a batch when its log is compacted: all of it, some records, an empty batch, or nothing.

Offsets and the batch's own range never change. Bytes of records are used as they are wherever the format allows; only a
batch that gets its delete horizon (KIP-534) is written anew, since its timestamps count from there. Called by
`log/compaction.py` with all batches in order; their records are judged by the lot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from tidelog.log.key_offsets import KeyOffsets
from tidelog.log.record_lot import RecordLot, Remaining
from tidelog.log.transaction_trail import TransactionTrail
from tidelog.model.ids import NO_PRODUCER
from tidelog.wire.batch import (
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    MAGIC,
    NO_SEQUENCE,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    Buffer,
)
from tidelog.wire.compression import compress
from tidelog.wire.keys.rebase import rebase
from tidelog.wire.records import NO_PRODUCER_EPOCH, read_records, rebuild_batch, seal_batch


class LastOfProducer(NamedTuple):
    """What of a producer must stay, so that its next batch is judged right: its last batch, or its last marker."""

    last_offset: int | None
    epoch: int


class Filtered(NamedTuple):
    """A batch and what is to be written in its place: the same object when all of it stays, None when nothing does."""

    header: BatchHeader
    batch: memoryview
    remains: Buffer | None


def placeholder(offset: int, leader_epoch: int) -> bytes:
    """A batch without records that only says that its log goes up to `offset`."""
    header = BatchHeader(
        offset, 0, leader_epoch, MAGIC, 0, 0, 0, -1, -1, NO_PRODUCER, NO_PRODUCER_EPOCH, NO_SEQUENCE, 0
    )
    return seal_batch(header, b"")


def is_placeholder(header: BatchHeader) -> bool:
    return not header.records_count and not header.has_producer_id


class BatchFilter:
    """The decisions of one pass over a log."""

    __slots__ = ("_delete_horizon_ms", "_end", "_keys", "_keys_start", "_last_of_producers", "_now_ms", "trail")

    def __init__(
        self,
        keys: KeyOffsets,
        keys_start: int,
        end: int,
        trail: TransactionTrail,
        last_of_producers: Mapping[int, LastOfProducer],
        now_ms: int,
        delete_retention_ms: int,
    ) -> None:
        self._keys = keys
        # The keys of all batches from the one to before the other were noted. What follows is left as it is.
        self._keys_start = keys_start
        self._end = end
        self.trail = trail
        self._last_of_producers = last_of_producers
        self._now_ms = now_ms
        self._delete_horizon_ms = now_ms + delete_retention_ms

    def filtered(self, batches: Iterable[tuple[BatchHeader, memoryview]], last_offset: int) -> Iterator[Filtered]:
        """Judge the batches of a segment, in order; a mark at `last_offset` stays. INVALID_RECORD if one is broken."""
        lot = RecordLot()
        # What comes behind a batch whose records are in the lot waits with it, so that the order stays.
        waiting: list[Filtered | int] = []
        judged: list[tuple[BatchHeader, memoryview]] = []
        for header, batch in batches:
            if header.base_offset >= self._end or (header.base_offset == last_offset and is_placeholder(header)):
                one: Filtered | None = Filtered(header, batch, batch)
            elif header.attributes & CONTROL_FLAG:
                one = Filtered(header, batch, self._control(header, batch))
            elif self._is_superseded(header):
                one = Filtered(header, batch, self._nothing(header))
            else:
                keeps_tombstones = not header.has_delete_horizon or self._now_ms < header.base_timestamp
                lot.add(header, batch, is_noted=self._is_noted(header), keeps_tombstones=keeps_tombstones)
                waiting.append(len(judged))
                judged.append((header, batch))
                one = None
            if not judged:
                assert one is not None
                yield one
                continue
            if one is not None:
                waiting.append(one)
            lot.span_bytes += len(batch)
            if lot.is_full:
                yield from self._settle(waiting, judged, lot)
                lot = RecordLot()
                waiting.clear()
                judged.clear()
        yield from self._settle(waiting, judged, lot)

    def _settle(
        self, waiting: list[Filtered | int], judged: list[tuple[BatchHeader, memoryview]], lot: RecordLot
    ) -> Iterator[Filtered]:
        remaining = self._keys.keep(lot) if judged else []
        for one in waiting:
            if isinstance(one, int):
                header, batch = judged[one]
                yield Filtered(header, batch, self._remains(header, batch, remaining[one]))
            else:
                yield one

    def _is_superseded(self, header: BatchHeader) -> bool:
        """Whether nothing stays of a batch, as far as can be said without its records."""
        # The trail is to meet every batch of a transaction, empty ones too.
        if (header.attributes & TRANSACTIONAL_FLAG and self.trail.is_aborted(header)) or not header.records_count:
            return True
        return self._is_noted(header) and not self._keys.is_any_newest(header.base_offset, header.last_offset)

    def _is_noted(self, header: BatchHeader) -> bool:
        """Whether a batch was never compacted, so that its offsets have no gaps, and all its keys were noted."""
        return (
            header.base_offset >= self._keys_start
            and header.records_count == header.last_offset_delta + 1
            and not header.has_delete_horizon
        )

    def _remains(self, header: BatchHeader, batch: memoryview, remaining: Remaining) -> Buffer | None:
        if not remaining.records_count:
            return self._nothing(header)
        needs_horizon = remaining.tombstones > 0 and not header.has_delete_horizon
        if remaining.records_count == header.records_count and not needs_horizon:
            return batch
        base_timestamp = header.base_timestamp
        max_timestamp = header.max_timestamp
        if not header.is_log_append_time:
            max_timestamp = base_timestamp + remaining.timestamp_delta_max
        records = remaining.records
        attributes = header.attributes
        if needs_horizon:
            base_timestamp = self._delete_horizon_ms
            attributes |= DELETE_HORIZON_FLAG
            records = rebase(records, remaining.records_count, header, base_timestamp)
        if header.compression:
            records = compress(header.compression, records)
        changed = msgspec.structs.replace(
            header,
            attributes=attributes,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            records_count=remaining.records_count,
        )
        return seal_batch(changed, records)

    def _control(self, header: BatchHeader, batch: memoryview) -> memoryview | bytes | None:
        is_needless = self.trail.is_needless(header, batch)
        if not header.records_count:
            return self._nothing(header)
        if not is_needless:
            return batch
        if not header.has_delete_horizon:
            records = read_records(batch, check_crc=False)
            return rebuild_batch(header, records, delete_horizon_ms=self._delete_horizon_ms)
        return self._nothing(header) if header.base_timestamp <= self._now_ms else batch

    def _nothing(self, header: BatchHeader) -> bytes | None:
        """No record stays; the batch does, without records, where it holds the last that is known of its producer."""
        last = self._last_of_producers.get(header.producer_id) if header.has_producer_id else None
        if last is None:
            return None
        if last.last_offset is None:
            is_needed = header.is_control and header.producer_epoch == last.epoch
        else:
            is_needed = header.last_offset == last.last_offset
        return rebuild_batch(header, []) if is_needed else None
