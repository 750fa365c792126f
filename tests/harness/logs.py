"""Batches and logs for tests of the log: build, append, read back, check that the indexes agree with the batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidelog.env.clock import Clock
from tidelog.env.files import Files
from tidelog.log.batch_walk import walk
from tidelog.log.config import LogConfig
from tidelog.log.open_files import OpenFiles
from tidelog.log.partition import PartitionLog
from tidelog.log.recovery import create_log, open_log
from tidelog.model.ids import LeaderEpoch, Offset, PartitionIndex, ProducerEpoch, ProducerId, TopicName, TopicPartition
from tidelog.wire.batch import iter_headers, read_header
from tidelog.wire.compression import Compression
from tidelog.wire.records import Record, build_batch, read_records

PARTITION: Final = TopicPartition(TopicName("tides"), PartitionIndex(0))
EPOCH: Final = LeaderEpoch(0)
NOON_MS: Final = 1_700_000_000_000
# So small that a few records fill a segment and have entries in its index.
SMALL = LogConfig(segment_bytes=2000, index_interval_bytes=300)


def batch_of(
    values: Sequence[bytes],
    *,
    timestamp: int = NOON_MS,
    step_ms: int = 0,
    producer: tuple[int, int, int] | None = None,
    is_transactional: bool = False,
    compression: Compression = Compression.NONE,
    log_append_time_ms: int | None = None,
) -> memoryview:
    """A batch as a producer sends it; `producer` is (id, epoch, first sequence)."""
    records = [Record(0, timestamp + number * step_ms, None, value) for number, value in enumerate(values)]
    producer_id, epoch, sequence = producer or (-1, -1, -1)
    data = build_batch(
        records,
        producer_id=ProducerId(producer_id),
        producer_epoch=ProducerEpoch(epoch),
        base_sequence=sequence,
        is_transactional=is_transactional,
        compression=compression,
        log_append_time_ms=log_append_time_ms,
    )
    return memoryview(bytearray(data))


def stage(log: PartitionLog, batch: memoryview, epoch: int = EPOCH) -> Offset:
    return log.stage(read_header(batch), batch, LeaderEpoch(epoch))


def append(log: PartitionLog, *values: bytes, epoch: int = EPOCH, timestamp: int = NOON_MS, step_ms: int = 0) -> Offset:
    """Append one batch and return its base offset."""
    base = stage(log, batch_of(values, timestamp=timestamp, step_ms=step_ms), epoch)
    log.write_staged()
    return base


def values_of(log: PartitionLog, start: int | None = None, *, max_bytes: int = 1 << 20) -> dict[int, bytes]:
    """Everything in the log, by offset, read as a consumer reads it."""
    offset = log.start_offset if start is None else Offset(start)
    values: dict[int, bytes] = {}
    while (part := log.read(offset, max_bytes, log.end_offset)) is not None:
        data = part.read()
        assert len(data) == len(part)
        headers = list(iter_headers(data))
        assert headers, f"{part} holds no whole batch"
        assert sum(header.size_bytes for _, header in headers) == len(data), "a slice holds whole batches"
        for position, header in headers:
            for record in read_records(data, position):
                if record.offset >= log.start_offset:
                    values[record.offset] = record.value or b""
            assert header.last_offset >= offset
            offset = header.next_offset
    return values


def new_log(files: Files, clock: Clock, directory: str, config: LogConfig = LogConfig()) -> PartitionLog:
    return create_log(PARTITION, directory, OpenFiles(files), clock, config)


def reopened(
    log: PartitionLog,
    *,
    clean: bool,
    recovery_point: int = 0,
    start_offset: int = 0,
    compacted_up_to: int = 0,
    config: LogConfig | None = None,
) -> PartitionLog:
    """Open the same folder again, as a start after a stop does."""
    return open_log(
        log.partition,
        log.directory,
        OpenFiles(log.open_files.files),
        log.clock,
        config or log.config,
        clean=clean,
        recovery_point=Offset(recovery_point),
        start_offset=Offset(start_offset),
        compacted_up_to=Offset(compacted_up_to),
    )


def check_indexes(log: PartitionLog) -> None:
    """Every entry of both indexes points at a batch that is what the entry says."""
    for segment in log.segments:
        by_position = {found.position: found for found in walk(segment.opened(), 0, segment.size)}
        last_offsets = {found.last_offset: found for found in by_position.values()}
        rows = [segment.offset_index.row(number) for number in range(segment.offset_index.count)]
        assert rows == sorted(set(rows))
        for relative, position in rows:
            assert by_position[position].last_offset == segment.base_offset + relative
        times = [segment.time_index.row(number) for number in range(segment.time_index.count)]
        assert times == sorted(set(times))
        for timestamp, relative in times:
            batch = last_offsets[segment.base_offset + relative]
            assert batch.max_timestamp == timestamp
            assert all(
                other.max_timestamp < timestamp for other in by_position.values() if other.position < batch.position
            )
        largest = max((found.max_timestamp for found in by_position.values()), default=-1)
        assert segment.largest_timestamp().timestamp == largest


def fill(log: PartitionLog, count: int, *, step_ms: int = 1) -> dict[int, bytes]:
    """Append `count` batches of one to three records; returns what a reader must find."""
    expected: dict[int, bytes] = {}
    for number in range(count):
        values = [b"%06d-%d" % (number, part) + b"." * 50 for part in range(number % 3 + 1)]
        base = append(log, *values, timestamp=NOON_MS + number * step_ms)
        expected |= {base + part: value for part, value in enumerate(values)}
    return expected
