"""Keyed records for tests of compaction: append them, read back what a reader sees, compact a log in one step."""

from __future__ import annotations

from collections.abc import Sequence

from harness.logs import NOON_MS, stage
from tidelog.log.compaction import compact_now
from tidelog.log.partition import PartitionLog
from tidelog.model.ids import Offset, ProducerEpoch, ProducerId
from tidelog.wire.batch import BatchHeader, iter_headers
from tidelog.wire.compression import Compression
from tidelog.wire.control import EndTransaction, build_end_transaction
from tidelog.wire.records import Record, build_batch, read_records

Pair = tuple[bytes | None, bytes | None]


def keyed(
    log: PartitionLog,
    *pairs: Pair,
    timestamp: int = NOON_MS,
    step_ms: int = 0,
    producer: tuple[int, int, int] | None = None,
    is_transactional: bool = False,
    compression: Compression = Compression.NONE,
) -> Offset:
    """Append one batch of (key, value) and return its base offset; a value of None is a tombstone."""
    records = [Record(0, timestamp + number * step_ms, key, value) for number, (key, value) in enumerate(pairs)]
    producer_id, epoch, sequence = producer or (-1, -1, -1)
    data = build_batch(
        records,
        producer_id=ProducerId(producer_id),
        producer_epoch=ProducerEpoch(epoch),
        base_sequence=sequence,
        is_transactional=is_transactional,
        compression=compression,
    )
    base = stage(log, memoryview(bytearray(data)))
    log.write_staged()
    return base


def end_transaction(log: PartitionLog, producer_id: int, *, commit: bool, epoch: int = 0) -> Offset:
    marker = build_end_transaction(EndTransaction(commit, 1), ProducerId(producer_id), ProducerEpoch(epoch), NOON_MS)
    base = stage(log, memoryview(bytearray(marker)))
    log.write_staged()
    log.producers.replicated_up_to(log.end_offset)
    return base


def batches_of(log: PartitionLog) -> list[tuple[BatchHeader, list[Record]]]:
    """Every batch of the log with its records, as a reader that starts at the beginning gets them."""
    offset = log.start_offset
    found: list[tuple[BatchHeader, list[Record]]] = []
    while (part := log.read(offset, 1 << 20, log.end_offset)) is not None:
        data = part.read()
        for position, header in iter_headers(data):
            found.append((header, read_records(data, position)))
            offset = header.next_offset
    return found


def records_of(log: PartitionLog) -> dict[int, Record]:
    """The records of the log by offset, without those of control batches."""
    return {
        record.offset: record
        for header, records in batches_of(log)
        if not header.is_control
        for record in records
        if record.offset >= log.start_offset
    }


def newest_values(records: Sequence[Record]) -> dict[bytes | None, bytes | None]:
    """What a table that is filled from these records holds, deleted keys included."""
    return {record.key: record.value for record in records}


def compact(
    log: PartitionLog, compacted_up_to: int = 0, *, now_ms: int | None = None, keys_bytes_max: int = 1 << 20
) -> Offset:
    """Seal what there is, put it on the disk, compact it in one pass."""
    log.roll()
    log.flush()
    return compact_now(
        log,
        Offset(compacted_up_to),
        log.last_stable_offset(log.end_offset),
        log.clock.now_ms() if now_ms is None else now_ms,
        keys_bytes_max=keys_bytes_max,
        always=True,
    )
