"""What remains of a batch when its log is compacted: all of it, some records, an empty batch, or nothing.

Offsets and the batch's own range never change. Bytes of records are used as they are wherever the format allows; only a
batch that gets its delete horizon (KIP-534) is encoded anew, since its timestamps count from there. Called by
`log/compaction.py` for every batch in order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from tidelog.log.key_offsets import KeyOffsets, shorten
from tidelog.log.transaction_trail import TransactionTrail
from tidelog.model.ids import NO_PRODUCER
from tidelog.wire.batch import HEADER_BYTES, MAGIC, NO_SEQUENCE, BatchHeader
from tidelog.wire.compression import compress, decompress
from tidelog.wire.record_scan import Kept, keep_newest, largest_timestamp_delta, record_bounds
from tidelog.wire.records import DECOMPRESSED_BYTES_MAX, NO_PRODUCER_EPOCH, read_records, rebuild_batch, seal_batch


class LastOfProducer(NamedTuple):
    """What of a producer must stay, so that its next batch is judged right: its last batch, or its last marker."""

    last_offset: int | None
    epoch: int


def body_of(header: BatchHeader, batch: memoryview) -> bytes:
    """The records of a batch, decompressed within the bound."""
    body = batch[HEADER_BYTES:]
    return decompress(header.compression, body, DECOMPRESSED_BYTES_MAX) if header.compression else bytes(body)


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

    __slots__ = ("_delete_horizon_ms", "_keys", "_last_of_producers", "_now_ms", "trail")

    def __init__(
        self,
        keys: KeyOffsets,
        trail: TransactionTrail,
        last_of_producers: Mapping[int, LastOfProducer],
        now_ms: int,
        delete_retention_ms: int,
    ) -> None:
        self._keys = keys
        self.trail = trail
        self._last_of_producers = last_of_producers
        self._now_ms = now_ms
        self._delete_horizon_ms = now_ms + delete_retention_ms

    def remains(self, header: BatchHeader, batch: memoryview) -> memoryview | bytes | None:
        """The batch to write in the place of this one: the same object when all of it stays, None when nothing does."""
        if header.is_control:
            return self._control(header, batch)
        if self.trail.is_aborted(header) or not header.records_count:
            return self._nothing(header)
        survivors = self._survivors(header)
        if survivors is not None and not survivors:
            return self._nothing(header)
        body = body_of(header, batch)
        kept = self._kept(header, body, survivors)
        if not kept.bounds:
            return self._nothing(header)
        if kept.tombstones and not header.has_delete_horizon:
            starts = {start for start, _ in kept.bounds}
            records = read_records(batch, check_crc=False)
            bounds = record_bounds(body, header.records_count)
            staying = [record for record, start in zip(records, bounds, strict=False) if start in starts]
            return rebuild_batch(header, staying, delete_horizon_ms=self._delete_horizon_ms)
        if len(kept.bounds) == header.records_count:
            return batch
        return _with_records(header, body, kept.bounds)

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

    def _survivors(self, header: BatchHeader) -> Sequence[int] | None:
        """What stays of a batch that was never compacted: its offsets have no gaps, and all its keys were noted."""
        if (
            header.base_offset >= self._keys.start_offset
            and header.records_count == header.last_offset_delta + 1
            and not header.has_delete_horizon
        ):
            return self._keys.survivors(header.base_offset, header.last_offset)
        return None

    def _kept(self, header: BatchHeader, body: bytes, survivors: Sequence[int] | None) -> Kept:
        count = header.records_count
        base = header.base_offset
        if survivors is not None:
            # No key need be read again.
            bounds = record_bounds(body, count)
            deltas = [(number >> 1) - base for number in survivors]
            tombstones = sum(number & 1 for number in survivors)
            return Kept([(bounds[delta], bounds[delta + 1]) for delta in deltas], tombstones)
        keep_tombstones = not header.has_delete_horizon or self._now_ms < header.base_timestamp
        return keep_newest(body, count, base, self._keys.newest, shorten, keep_tombstones=keep_tombstones)


def _with_records(header: BatchHeader, body: bytes, bounds: list[tuple[int, int]]) -> bytes:
    """The batch with some of its records, whose bytes stay as they are."""
    kept = b"".join([body[start:end] for start, end in bounds])
    max_timestamp = header.max_timestamp
    if not header.is_log_append_time:
        max_timestamp = header.base_timestamp + largest_timestamp_delta(body, bounds)
    if header.compression:
        kept = compress(header.compression, kept)
    changed = msgspec.structs.replace(header, max_timestamp=max_timestamp, records_count=len(bounds))
    return seal_batch(changed, kept)
