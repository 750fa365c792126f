"""Record batches to Arrow columns: one row for each record that a consumer sees, no Python object for any.

Called by the client's readers with the bytes of a fetch. Control batches, aborted transactions and records outside of
the wanted offsets are left out; a batch that is cut off at the end is, too. What is broken raises ProtocolError.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.model.ids import Offset, PartitionIndex, TopicName, TopicPartition
from tidelog.wire.batch import HEADER_BYTES, BatchHeader, Buffer, is_crc_valid, iter_headers
from tidelog.wire.columns import layout
from tidelog.wire.columns.arrays import (
    BINARY_BYTES_MAX,
    binary_array,
    empty_batch,
    list_array,
    number_array,
    text_array,
)
from tidelog.wire.columns.fields import COMPILED, OFFSET_MAX, Body, Bytes, Spans, find_headers
from tidelog.wire.columns.layout import FIELDS, HEADER_TYPE, RECORD_COLUMNS, schema_of
from tidelog.wire.columns.taken import Taken, take
from tidelog.wire.compression import decompress
from tidelog.wire.control import ControlType, read_control_type
from tidelog.wire.messages.fetch import AbortedTransaction
from tidelog.wire.records import DECOMPRESSED_BYTES_MAX, read_records

# Rows are handed out after the batch with which this is reached, so that one more always fits Arrow's 32 bits.
DECODED_BYTES_MAX: Final = 1024 * 1024 * 1024
NO_TIMESTAMP: Final = -1
TOPICS_REMEMBERED: Final = 1024
NOWHERE: Final = TopicPartition(TopicName(""), PartitionIndex(-1))

_NO_HEADERS: Final = pa.nulls(0, HEADER_TYPE)


class Decoded(NamedTuple):
    """Rows as a pyarrow.RecordBatch, and the offset to go on from."""

    batch: Any
    next_offset: Offset


class _Chosen(NamedTuple):
    """A batch whose records are wanted, and where they are: in the buffer, or decompressed."""

    header: BatchHeader
    position: int
    decompressed: bytes | None


def decode(
    batches: Buffer,
    *,
    columns: Sequence[str] = RECORD_COLUMNS,
    start: int = 0,
    end: int = OFFSET_MAX,
    aborted: Iterable[AbortedTransaction] | None = None,
    of: TopicPartition = NOWHERE,
    check_crc: bool = True,
    compiled: bool = COMPILED,
) -> Any:
    """The records of these batches as one pyarrow.RecordBatch; see `decode_each`, which takes any number of bytes."""
    pieces = decode_each(
        batches,
        columns=columns,
        start=start,
        end=end,
        aborted=aborted,
        of=of,
        check_crc=check_crc,
        compiled=compiled,
    )
    first = next(pieces)
    if next(pieces, None) is not None:
        raise ValueError(f"The records have more than {DECODED_BYTES_MAX} bytes: use decode_each().")
    return first.batch


def decode_each(
    batches: Buffer,
    *,
    columns: Sequence[str] = RECORD_COLUMNS,
    start: int = 0,
    end: int = OFFSET_MAX,
    aborted: Iterable[AbortedTransaction] | None = None,
    of: TopicPartition = NOWHERE,
    check_crc: bool = True,
    compiled: bool = COMPILED,
) -> Iterator[Decoded]:
    """The records with offsets from `start` on and before `end`: one piece, or more where a gigabyte is exceeded.

    `aborted` is what came with a fetch of committed records: those transactions are left out. `of` is what the columns
    "topic" and "partition" say. The offset to go on from lies behind every batch that was looked at, also where no
    record came of it.
    """
    schema = schema_of(columns)
    view = memoryview(batches)
    next_offset = start
    chosen: list[_Chosen] = []
    chosen_bytes = 0
    yielded = False
    for position, header, is_visible in _wanted(view, start, end, aborted):
        next_offset = min(header.next_offset, end)
        if not is_visible:
            continue
        if check_crc and not is_crc_valid(view, header, position):
            raise ProtocolError(ErrorCode.CORRUPT_MESSAGE, f"Record is corrupt (stored crc = {header.crc}).")
        decompressed = None
        if header.compression:
            packed = view[position + HEADER_BYTES : position + header.size_bytes]
            decompressed = decompress(header.compression, packed, DECOMPRESSED_BYTES_MAX)
        chosen.append(_Chosen(header, position, decompressed))
        chosen_bytes += header.size_bytes if decompressed is None else len(decompressed)
        if chosen_bytes >= DECODED_BYTES_MAX:
            yield Decoded(_rows(view, chosen, schema, start, end, of, compiled), Offset(next_offset))
            yielded, chosen, chosen_bytes = True, [], 0
    if chosen or not yielded:
        yield Decoded(_rows(view, chosen, schema, start, end, of, compiled), Offset(next_offset))


def _wanted(
    view: memoryview, start: int, end: int, aborted: Iterable[AbortedTransaction] | None
) -> Iterator[tuple[int, BatchHeader, bool]]:
    """Position and header of each batch that reaches into the wanted offsets, and whether a consumer may see it."""
    waiting = sorted(aborted or (), key=lambda transaction: transaction.first_offset, reverse=True)
    aborting: set[int] = set()
    for position, header in iter_headers(view):
        if header.base_offset >= end:
            # Compaction leaves gaps: it shows that there is nothing more before the end.
            yield position, header, False
            return
        if header.last_offset < start:
            continue
        while waiting and waiting[-1].first_offset <= header.last_offset:
            aborting.add(waiting.pop().producer_id)
        if header.is_control:
            if header.producer_id in aborting and _ends_in_abort(view, position):
                aborting.discard(header.producer_id)
            yield position, header, False
        else:
            yield position, header, not (header.is_transactional and header.producer_id in aborting)


def _ends_in_abort(view: memoryview, position: int) -> bool:
    return any(read_control_type(record) == ControlType.ABORT for record in read_records(view, position))


def _rows(
    view: memoryview, chosen: Sequence[_Chosen], schema: Any, start: int, end: int, of: TopicPartition, compiled: bool
) -> Any:
    """The columns of the chosen batches, which are found in one buffer: their own, or one put together."""
    if not chosen:
        return empty_batch(schema)
    raw, places = _one_buffer(view, chosen)
    if len(raw) > BINARY_BYTES_MAX:
        raise ProtocolError(ErrorCode.MESSAGE_TOO_LARGE, f"A batch of {len(raw)} bytes is too large for Arrow.")
    bodies = [
        Body(
            place,
            place_end,
            header.records_count,
            header.base_offset,
            header.base_timestamp,
            header.max_timestamp if header.is_log_append_time else None,
        )
        for (header, _, _), (place, place_end) in zip(chosen, places, strict=True)
    ]
    buffer = np.frombuffer(raw, np.uint8)
    taken = take(buffer, bodies, start, end, schema.names, compiled=compiled)
    made = [_column(name, buffer, bodies, taken, of, compiled) for name in schema.names]
    return pa.RecordBatch.from_arrays(made, schema=schema)


def _one_buffer(view: memoryview, chosen: Sequence[_Chosen]) -> tuple[Buffer, list[tuple[int, int]]]:
    """The bytes of all bodies, and where each begins and ends. Batches that are not compressed stay where they are."""
    if all(decompressed is None for _, _, decompressed in chosen):
        first = chosen[0].position
        last = chosen[-1].position + chosen[-1].header.size_bytes
        places = [
            (position - first + HEADER_BYTES, position - first + header.size_bytes) for header, position, _ in chosen
        ]
        return view[first:last], places
    parts: list[Buffer] = []
    places = []
    place = 0
    for header, position, decompressed in chosen:
        part = view[position + HEADER_BYTES : position + header.size_bytes] if decompressed is None else decompressed
        parts.append(part)
        places.append((place, place + len(part)))
        place += len(part)
    return b"".join(parts) if len(parts) > 1 else parts[0], places


def _column(name: str, buffer: Bytes, bodies: Sequence[Body], taken: Taken, of: TopicPartition, compiled: bool) -> Any:
    type_ = FIELDS[name].type
    match name:
        case layout.KEY:
            return taken.keys
        case layout.VALUE:
            return taken.values
        case layout.HEADERS:
            return _headers(buffer, taken, type_, compiled)
        case layout.OFFSET:
            return number_array(taken.offsets, type_)
        case layout.TIMESTAMP:
            nulls = taken.timestamps == NO_TIMESTAMP
            return number_array(taken.timestamps, type_, nulls if nulls.any() else None)
        case layout.TIMESTAMP_TYPE:
            kinds = np.array([body.append_time is not None for body in bodies], np.int32)
            return number_array(np.repeat(kinds, taken.rows_of_bodies), type_)
        case layout.PARTITION:
            return number_array(np.full(taken.rows, of.partition, np.int32), type_)
        case _:
            assert name == layout.TOPIC, name
            indexes = number_array(np.zeros(taken.rows, np.int32), pa.int32())
            return pa.DictionaryArray.from_arrays(indexes, _one_name(of.topic))


@lru_cache(maxsize=TOPICS_REMEMBERED)
def _one_name(topic: str) -> Any:
    raw = np.frombuffer(topic.encode(), np.uint8)
    return text_array(raw, Spans(np.zeros(1, np.int64), np.array([len(raw)], np.int64)))


def _headers(buffer: Bytes, taken: Taken, type_: Any, compiled: bool) -> Any:
    if not taken.header_counts.any():
        return list_array(taken.header_counts, _NO_HEADERS, type_)
    keys, values = find_headers(buffer, taken.header_starts, taken.header_counts, compiled=compiled)
    elements = pa.StructArray.from_arrays(
        [text_array(buffer, keys, compiled=compiled), binary_array(buffer, values, compiled=compiled)],
        fields=list(HEADER_TYPE),
    )
    return list_array(taken.header_counts, elements, type_)
