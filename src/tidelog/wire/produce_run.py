"""Produce requests of known forms, one behind the other in a buffer: taken apart and checked together.

A producer that pipelines sends many of them at a time, and what is done once for all of them is not done for each.
Called by `broker/repeated_produce.py`. It takes only what is whole and without fault; the rest is for the decoder,
which says what is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from struct import Struct
from typing import Final, TypeVar

from tidelog.model.ids import Offset
from tidelog.wire.batch import (
    CHECKED_POSITION,
    COMPRESSION_MASK,
    HEADER_BYTES,
    LAST_COMPRESSION,
    LENGTH_OVERHEAD_BYTES,
    MAGIC,
    NOT_FOR_CLIENTS,
    SEQUENCE_MASK,
    TRANSACTIONAL_FLAG,
)
from tidelog.wire.batch_run import BatchRun
from tidelog.wire.crc import crc32c
from tidelog.wire.messages.produce import ProduceRequest
from tidelog.wire.primitives import uvarint
from tidelog.wire.produce_form import TAIL_BYTES, ProduceForm

FRAME_LENGTH_BYTES: Final = 4
# Longer records than three bytes of a length can say are rare, and dear enough without this.
LENGTH_BYTES_MAX: Final = 3
# A run holds up the turn's other connections; this many take about a millisecond.
RUN_MAX: Final = 500
# A batch of a transaction is one of a producer.
NOT_ALWAYS_IN_A_RUN: Final = NOT_FOR_CLIENTS | TRANSACTIONAL_FLAG
# A batch's header without the leader epoch and the base timestamp, which are not looked at.
HEADER_FORMAT: Final = "qi4xbIhi8xqqhii"

# The frame's length, then key and version as one number: the key is 0.
FIRST_BYTES: Final = 8
_unpack_first = Struct(">ii").unpack_from

F = TypeVar("F", bound=ProduceForm)


class ProducePart(BatchRun):
    """Requests of one form, one behind the other: their batches, and one answer that holds for all."""

    # Without slots, so that what hardly ever changes is not set for each.
    error_code = 0
    error_message: str | None = None
    base_offset = log_append_time_ms = log_start_offset = -1
    # Of each batch, and the one after the last.
    offsets: Sequence[Offset] = ()
    # Where in the buffer the first of the requests begins.
    position = 0
    correlation_ids: list[int]


class _Layout:
    """Where things are in a request whose records' length has so many bytes."""

    __slots__ = (
        "batch_length",
        "bytes_min",
        "frame_bytes_max",
        "frame_bytes_min",
        "length",
        "records_position",
        "unpack",
    )

    def __init__(self, head_bytes: int, length_bytes: int) -> None:
        # The frame's length, key and version as one number, the correlation id, the head, the length, the batch.
        layout = Struct(f">iii{head_bytes}s{length_bytes}s{HEADER_FORMAT}")
        self.unpack = layout.unpack_from
        self.bytes_min = layout.size + TAIL_BYTES
        self.records_position = layout.size - HEADER_BYTES
        around = self.records_position + TAIL_BYTES - FRAME_LENGTH_BYTES
        self.frame_bytes_min = around + max((1 << 7 * (length_bytes - 1)) - 1, HEADER_BYTES)
        self.frame_bytes_max = around + (1 << 7 * length_bytes) - 2
        # A batch's length as it was last seen, and how a request says it: most batches are as long as the one before.
        self.batch_length = -1
        self.length = b""


class RunReader:
    """Reads runs of requests whose heads have the same number of bytes."""

    __slots__ = ("_layouts",)

    api_key: Final = ProduceRequest.API_KEY

    def __init__(self, head_bytes: int) -> None:
        self._layouts = tuple(_Layout(head_bytes, count) for count in range(1, LENGTH_BYTES_MAX + 1))

    def read(
        self,
        view: memoryview,
        position: int,
        end: int,
        forms: Mapping[bytes, F],
        frame_bytes_max: int,
    ) -> tuple[list[tuple[F, ProducePart]], int] | None:
        """The longest run of requests of these forms, by their heads, at the front of view[position:end]: in parts of
        one form each, and with the position behind it. None when there is none.

        Whether a batch of a transaction belongs to one that is open is for its partition to say.
        """
        if end - position < FIRST_BYTES:
            return None
        frame_bytes, version = _unpack_first(view, position)
        for layout in self._layouts:
            if layout.frame_bytes_min <= frame_bytes <= layout.frame_bytes_max:
                break
        else:
            return None
        parts: list[tuple[F, ProducePart]] = []
        # One loop with local names and without calls, though it is long: it runs for every small produce request.
        unpack, records_position = layout.unpack, layout.records_position
        last_start = end - layout.bytes_min
        length_max = frame_bytes_max + FRAME_LENGTH_BYTES - records_position - TAIL_BYTES - LENGTH_OVERHEAD_BYTES
        known_head = part = None
        known_producer = known_epoch = known_attributes = next_sequence = -1
        for _ in range(RUN_MAX):
            if position > last_start:
                break
            (
                frame_bytes,
                its_version,
                correlation_id,
                head,
                its_length,
                base_offset,
                batch_length,
                magic,
                crc,
                attributes,
                last_offset_delta,
                max_timestamp,
                producer_id,
                producer_epoch,
                sequence,
                records_count,
            ) = unpack(view, position)
            is_alike = head == known_head
            if not is_alike:
                known = forms.get(head)
                if known is None or known.version != version:
                    break
                form = known
            elif producer_id != known_producer or (
                producer_id >= 0
                and (
                    sequence != next_sequence
                    or producer_epoch != known_epoch
                    or (attributes ^ known_attributes) & TRANSACTIONAL_FLAG
                )
            ):
                break
            frame_end = position + FRAME_LENGTH_BYTES + frame_bytes
            records_end = frame_end - TAIL_BYTES
            start = position + records_position
            if batch_length != layout.batch_length:
                layout.batch_length = batch_length
                is_possible = 0 < batch_length <= layout.frame_bytes_max
                layout.length = uvarint(batch_length + LENGTH_OVERHEAD_BYTES + 1) if is_possible else b""
            if (
                its_version != version
                or its_length != layout.length
                or frame_end > end
                or records_end - start != batch_length + LENGTH_OVERHEAD_BYTES
                or batch_length > length_max
                or magic != MAGIC
                or base_offset
                or records_count != last_offset_delta + 1
                or records_count <= 0
                or (attributes & NOT_ALWAYS_IN_A_RUN and (attributes & NOT_FOR_CLIENTS or producer_id < 0))
                or attributes & COMPRESSION_MASK > LAST_COMPRESSION
                or (sequence < 0 <= producer_id)
                # Indices, not a slice: a new view costs more than three look-ups.
                or view[records_end]
                or view[records_end + 1]
                or view[records_end + 2]
                or crc32c(view[start + CHECKED_POSITION : records_end]) != crc
            ):
                break
            batch = view[start:records_end]
            if part is not None and is_alike:
                part.views.append(batch)
                part.record_counts.append(records_count)
                part.max_timestamps.append(max_timestamp)
                part.correlation_ids.append(correlation_id)
            else:
                known_head, known_producer = head, producer_id
                known_epoch, known_attributes = producer_epoch, attributes
                part = ProducePart(batch, records_count, max_timestamp)
                part.position = position
                part.correlation_ids = [correlation_id]
                parts.append((form, part))
                if producer_id >= 0:
                    part.producer_id = producer_id
                    part.producer_epoch = producer_epoch
                    part.base_sequence = sequence
                    part.attributes = attributes
            next_sequence = (sequence + records_count) & SEQUENCE_MASK
            position = frame_end
        return (parts, position) if parts else None


@cache
def run_reader(head_bytes: int) -> RunReader:
    return RunReader(head_bytes)
