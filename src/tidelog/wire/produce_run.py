"""Produce requests of known forms, one behind the other in a buffer: taken apart and checked together.

A producer that pipelines sends many of them at a time, and what is done once for all of them is not done for each.
Called by `broker/repeated_produce.py`. It takes only what is whole and without fault; the rest is for the decoder,
which says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from functools import cache
from struct import Struct
from typing import Final

from tidelog.wire.batch import (
    CHECKED_POSITION,
    COMPRESSION_MASK,
    HEADER,
    HEADER_BYTES,
    LAST_COMPRESSION,
    LENGTH_OVERHEAD_BYTES,
    MAGIC,
    NOT_FOR_CLIENTS,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    RunBatch,
)
from tidelog.wire.crc import crc32c
from tidelog.wire.primitives import uvarint
from tidelog.wire.produce_form import TAIL_BYTES

FRAME_LENGTH_BYTES: Final = 4
# Longer records than three bytes of a length can say are rare, and dear enough without this.
LENGTH_BYTES_MAX: Final = 3
# In what is unpacked, the fields of the batch's header come behind those of the request.
BATCH_FIELD: Final = 5
# A run holds up the turn's other connections; this many take about a millisecond.
RUN_MAX: Final = 500
# For the first batch of a transaction its coordinator is asked first.
NOT_ALWAYS_IN_A_RUN: Final = NOT_FOR_CLIENTS | TRANSACTIONAL_FLAG


class ProduceRun:
    """Requests one behind the other: as many bytes around the batch of each, producer ids in all of them or in none."""

    __slots__ = ("_around_bytes", "_start", "batches", "correlation_ids", "heads", "version")

    def __init__(self, version: int, start: int, around_bytes: int) -> None:
        self.version = version
        self._start = start
        self._around_bytes = around_bytes
        self.correlation_ids: list[int] = []
        self.heads: list[bytes] = []
        self.batches: list[RunBatch] = []

    @property
    def end(self) -> int:
        """Where in the buffer the first request begins that is not in the run."""
        return self._start + sum([len(batch[0]) for batch in self.batches]) + len(self.batches) * self._around_bytes

    def cut(self, count: int) -> None:
        """Leave out all but the first `count` requests."""
        del self.correlation_ids[count:]
        del self.heads[count:]
        del self.batches[count:]


class _Layout:
    """Where things are in a request whose records' length has so many bytes."""

    __slots__ = ("bytes_min", "frame_bytes_max", "frame_bytes_min", "records_position", "unpack")

    def __init__(self, head_bytes: int, length_bytes: int) -> None:
        # The frame's length, key and version as one number, the correlation id, the head, the length, the batch.
        layout = Struct(f">iii{head_bytes}s{length_bytes}s{HEADER.format.removeprefix('>')}")
        self.unpack = layout.unpack_from
        self.bytes_min = layout.size + TAIL_BYTES
        self.records_position = layout.size - HEADER_BYTES
        around = self.records_position + TAIL_BYTES - FRAME_LENGTH_BYTES
        self.frame_bytes_min = around + max((1 << 7 * (length_bytes - 1)) - 1, HEADER_BYTES)
        self.frame_bytes_max = around + (1 << 7 * length_bytes) - 2


class RunReader:
    """Reads runs of requests whose heads have the same number of bytes."""

    __slots__ = ("_layouts",)

    def __init__(self, head_bytes: int) -> None:
        self._layouts = tuple(_Layout(head_bytes, count) for count in range(1, LENGTH_BYTES_MAX + 1))

    def read(
        self,
        view: memoryview,
        position: int,
        end: int,
        known_heads: Container[bytes],
        frame_bytes_max: int,
        continues: Callable[[bytes, int, int], bool],
    ) -> ProduceRun | None:
        """The longest run of requests with known heads at the front of view[position:end]; None when there is none.

        A batch of a transaction is in it when a request with its head, producer id and epoch `continues` an open one.
        """
        frame_bytes = int.from_bytes(view[position : position + FRAME_LENGTH_BYTES])
        for layout in self._layouts:
            if layout.frame_bytes_min <= frame_bytes <= layout.frame_bytes_max:
                break
        else:
            return None
        around_bytes = layout.records_position + TAIL_BYTES
        # The key is in it, too: it is 0.
        version = int.from_bytes(view[position + FRAME_LENGTH_BYTES : position + 2 * FRAME_LENGTH_BYTES])
        run = ProduceRun(version, position, around_bytes)
        # One loop with local names and without calls, though it is long: it runs for every small produce request.
        unpack, records_position = layout.unpack, layout.records_position
        last_start = end - layout.bytes_min
        length_max = frame_bytes_max + FRAME_LENGTH_BYTES - around_bytes - LENGTH_OVERHEAD_BYTES
        correlation_ids, heads, batches = run.correlation_ids, run.heads, run.batches
        known_bytes, known_length = -1, b""
        known_head = None
        has_ids = False
        for _ in range(RUN_MAX):
            if position > last_start:
                break
            fields = unpack(view, position)
            (
                frame_bytes,
                its_version,
                correlation_id,
                head,
                its_length,
                base_offset,
                batch_length,
                _,
                magic,
                crc,
                attributes,
                last_offset_delta,
                _,
                max_timestamp,
                producer_id,
                producer_epoch,
                sequence,
                records_count,
            ) = fields
            frame_end = position + FRAME_LENGTH_BYTES + frame_bytes
            records_end = frame_end - TAIL_BYTES
            start = position + records_position
            if head != known_head:
                if head not in known_heads:
                    break
                known_head = head
            if batch_length != known_bytes:
                known_bytes = batch_length
                known_length = uvarint(batch_length + LENGTH_OVERHEAD_BYTES + 1) if batch_length > 0 else b""
            if (
                its_version != version
                or its_length != known_length
                or frame_end > end
                or records_end - start != batch_length + LENGTH_OVERHEAD_BYTES
                or batch_length > length_max
                or magic != MAGIC
                or base_offset
                or records_count != last_offset_delta + 1
                or records_count <= 0
                or (
                    attributes & NOT_ALWAYS_IN_A_RUN
                    and (attributes & NOT_FOR_CLIENTS or not continues(head, producer_id, producer_epoch))
                )
                or attributes & COMPRESSION_MASK > LAST_COMPRESSION
                or (sequence < 0 <= producer_id)
                # Indices, not a slice: a new view costs more than three look-ups.
                or view[records_end]
                or view[records_end + 1]
                or view[records_end + 2]
                or crc32c(view[start + CHECKED_POSITION : records_end]) != crc
            ):
                break
            header = None
            if producer_id >= 0:
                if not has_ids and batches:
                    break
                has_ids = True
                header = BatchHeader(*fields[BATCH_FIELD:])
            elif has_ids:
                break
            correlation_ids.append(correlation_id)
            heads.append(head)
            batches.append((view[start:records_end], records_count, max_timestamp, header))
            position = frame_end
        return run if batches else None


@cache
def run_reader(head_bytes: int) -> RunReader:
    return RunReader(head_bytes)
