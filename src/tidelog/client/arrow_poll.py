"""What a consumer fetched as Arrow record batches: `poll_arrow` of both fronts delegates to it.

A batch holds the rows of one partition. A consumer that polls no tables never loads Arrow.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tidelog.client.core.chunk import FetchedChunk
from tidelog.client.errors import Rejected
from tidelog.model.errors import ProtocolError
from tidelog.model.ids import Offset
from tidelog.wire.columns.arrays import empty_batch
from tidelog.wire.columns.decode import decode_each
from tidelog.wire.columns.layout import ALL_COLUMNS, schema_of

if TYPE_CHECKING:
    from tidelog.client.aio.consumer import AsyncConsumer
    from tidelog.client.blocking.consumer import Consumer


class Rows(NamedTuple):
    """Rows of a chunk, where to go on, and whether that is behind the whole of it."""

    batch: Any
    next_offset: Offset
    is_all: bool


def rows_of(chunk: FetchedChunk, columns: Sequence[str], check_crcs: bool) -> Rows:
    """The rows of a chunk: all but for one that becomes more than a gigabyte. Rejected for bytes that are none."""
    try:
        pieces = decode_each(
            chunk.data,
            columns=columns,
            start=chunk.position,
            aborted=chunk.aborted,
            of=chunk.partition,
            check_crc=check_crcs,
        )
        first = next(pieces)
        return Rows(first.batch, first.next_offset, next(pieces, None) is None)
    except ProtocolError as error:
        sentence = f"{chunk.partition} cannot be read at offset {chunk.position}: {error}"
        raise Rejected(error.code, sentence) from None


def poll_arrow(consumer: Consumer, timeout_s: float, columns: Sequence[str] | None, check_crcs: bool) -> Any:
    """Rows as soon as there are any; a batch without rows when the time is up."""
    wanted = ALL_COLUMNS if columns is None else columns
    schema = schema_of(wanted)
    end = time.monotonic() + timeout_s
    while True:
        chunk = consumer.poll_chunk(max(0.0, end - time.monotonic()))
        if chunk is None:
            return empty_batch(schema)
        rows = rows_of(chunk, wanted, check_crcs)
        if rows.is_all:
            consumer.went_to(rows.next_offset)
        else:
            # The rest is fetched once more, rather than kept: nobody has room for it.
            consumer.seek(chunk.partition, rows.next_offset)
        if rows.batch.num_rows:
            return rows.batch


async def poll_arrow_async(
    consumer: AsyncConsumer, timeout_s: float, columns: Sequence[str] | None, check_crcs: bool
) -> Any:
    """The same for asyncio."""
    wanted = ALL_COLUMNS if columns is None else columns
    schema = schema_of(wanted)
    end = time.monotonic() + timeout_s
    while True:
        chunk = await consumer.poll_chunk(max(0.0, end - time.monotonic()))
        if chunk is None:
            return empty_batch(schema)
        rows = rows_of(chunk, wanted, check_crcs)
        if rows.is_all:
            consumer.went_to(rows.next_offset)
        else:
            consumer.seek(chunk.partition, rows.next_offset)
        if rows.batch.num_rows:
            return rows.batch
