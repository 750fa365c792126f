"""Where the fields of records are: eight numbers for each record, found by numpy, and those of headers.

`taken.py` asks where there is no compiled kernel, which takes the fields as it finds them; both refuse the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tidelog.model.errors import ErrorCode, ProtocolError
from tidelog.wire.columns import kernel
from tidelog.wire.record_walk import RECORD_BYTES_MIN, VARINT_BYTES_MAX, VARLONG_BYTES_MAX

Int64s: TypeAlias = NDArray[np.int64]
Uint64s: TypeAlias = NDArray[np.uint64]
Bytes: TypeAlias = NDArray[np.uint8]

OFFSET_MAX: Final = 2**63 - 1
# The revision of the kernel that fits this package, and whether a compiled one is there.
KERNEL_REVISION: Final = 4
COMPILED: Final = kernel.COMPILED and getattr(kernel, "REVISION", None) == KERNEL_REVISION

SENTENCES: Final = {
    kernel.TOO_SHORT: "The records end too early.",
    kernel.LENGTH_WRONG: "A record does not fit into its batch.",
    kernel.VARINT_TOO_LONG: "A varint is longer than its type.",
    kernel.FIELD_TOO_LONG: "A field reaches beyond its record.",
    kernel.HEADERS_WRONG: "A record claims more headers than it has room for.",
    kernel.HEADER_WITHOUT_KEY: "A header has no key.",
    kernel.FIELDS_DISAGREE: "A record's fields do not end where the record does.",
    kernel.BYTES_BEHIND: "Bytes follow the last record of the batch.",
}


class Body(NamedTuple):
    """The records of one batch, not compressed: where they are in the buffer, and what they count from."""

    start: int
    end: int
    records_count: int
    base_offset: int
    base_timestamp: int
    append_time: int | None


@dataclass(frozen=True, slots=True)
class Spans:
    """Where a variable field is in each row; a length of -1 is null."""

    starts: Int64s
    lengths: Int64s


@dataclass(frozen=True, slots=True)
class Fields:
    """The rows of some bodies."""

    offsets: Int64s
    timestamps: Int64s
    keys: Spans
    values: Spans
    header_starts: Int64s
    header_counts: Int64s
    rows_of_bodies: Int64s


def check_claims(bodies: Sequence[Body]) -> None:
    """ProtocolError for a body that cannot have as many records as it says; it would be given memory for them."""
    for body in bodies:
        if not 0 <= body.records_count <= (body.end - body.start) // RECORD_BYTES_MIN:
            raise malformed(f"The batch claims {body.records_count} records in {body.end - body.start} bytes.")


def find_headers(buffer: Bytes, starts: Int64s, counts: Int64s, *, compiled: bool = COMPILED) -> tuple[Spans, Spans]:
    """Keys and values of all headers of the rows, one row after the other."""
    if not compiled:
        keys, values, _ = _headers_by_numpy(buffer, starts, counts, np.full(len(starts), len(buffer)))
        return keys, values
    total = int(counts.sum())
    keys, values = (Spans(np.empty(total, np.int64), np.empty(total, np.int64)) for _ in range(2))
    kernel.walk_headers(buffer, starts, counts, len(starts), keys.starts, keys.lengths, values.starts, values.lengths)
    return keys, values


def find_fields(buffer: Bytes, bodies: Sequence[Body], first_offset: int, end_offset: int) -> Fields:
    """The fields of the records from `first_offset` on and before `end_offset`. ProtocolError for what is broken."""
    check_claims(bodies)
    view = buffer.data
    starts: list[int] = []
    for body in bodies:
        _walk_lengths(view, body, starts)
    counts = np.array([body.records_count for body in bodies], np.int64)
    lengths, positions = _varints(buffer, np.array(starts, np.int64), None, VARINT_BYTES_MAX)
    ends = positions + lengths
    timestamps, positions = _varints(buffer, positions + 1, ends, VARLONG_BYTES_MAX)
    offsets, positions = _varints(buffer, positions, ends, VARINT_BYTES_MAX)
    keys, positions = _spans(buffer, positions, ends)
    values, positions = _spans(buffer, positions, ends)
    header_counts, positions = _varints(buffer, positions, ends, VARINT_BYTES_MAX)
    if ((header_counts < 0) | (header_counts > ends - positions)).any():
        raise malformed(SENTENCES[kernel.HEADERS_WRONG])
    header_starts = positions
    if header_counts.any():
        _, _, positions = _headers_by_numpy(buffer, positions, header_counts, ends)
    if (positions != ends).any():
        raise malformed(SENTENCES[kernel.FIELDS_DISAGREE])
    offsets += np.repeat(np.array([body.base_offset for body in bodies], np.int64), counts)
    timestamps += np.repeat(np.array([body.base_timestamp for body in bodies], np.int64), counts)
    appended = np.repeat(np.array([body.append_time is not None for body in bodies], np.bool_), counts)
    if appended.any():
        append_times = np.repeat(np.array([body.append_time or 0 for body in bodies], np.int64), counts)
        timestamps = np.where(appended, append_times, timestamps)
    fields = (
        offsets,
        timestamps,
        keys.starts,
        keys.lengths,
        values.starts,
        values.lengths,
        header_starts,
        header_counts,
    )
    wanted = (first_offset <= offsets) & (offsets < end_offset)
    if not wanted.all():
        bounds = np.concatenate(([0], np.cumsum(counts)))
        before = np.concatenate(([0], np.cumsum(wanted)))
        counts = np.diff(before[bounds])
        fields = tuple(field[wanted] for field in fields)  # type: ignore[assignment]
    return Fields(
        fields[0], fields[1], Spans(fields[2], fields[3]), Spans(fields[4], fields[5]), fields[6], fields[7], counts
    )


def _walk_lengths(view: memoryview, body: Body, starts: list[int]) -> None:
    """Go from record to record by their lengths alone: the only step for which each record has to wait for the last."""
    position, limit = body.start, body.end
    note = starts.append
    try:
        for _ in range(body.records_count):
            note(position)
            byte = view[position]
            if byte < 0x80:
                position += 1 + (byte >> 1)
            else:
                second = view[position + 1]
                if second < 0x80:
                    position += 2 + ((byte & 0x7F | second << 7) >> 1)
                else:
                    number, shift = byte & 0x7F, 7
                    position += 1
                    while True:
                        number |= (second & 0x7F) << shift
                        position += 1
                        if second < 0x80:
                            break
                        shift += 7
                        if shift >= 7 * VARINT_BYTES_MAX:
                            raise malformed(SENTENCES[kernel.VARINT_TOO_LONG])
                        second = view[position]
                    position += number >> 1
                    byte = number & 1
            if byte & 1 or position > limit:
                raise malformed(SENTENCES[kernel.LENGTH_WRONG])
    except IndexError:
        raise malformed(SENTENCES[kernel.TOO_SHORT]) from None
    if position != limit:
        raise malformed(SENTENCES[kernel.BYTES_BEHIND])


def _varints(buffer: Bytes, positions: Int64s, ends: Int64s | None, bytes_max: int) -> tuple[Int64s, Int64s]:
    """The number at each position and what follows it. No number may reach behind its end."""
    last = len(buffer) - 1
    byte = buffer[np.minimum(positions, last)].astype(np.uint64)
    more = byte >= 0x80
    number = byte & np.uint64(0x7F)
    positions = positions + 1
    if more.any():
        unfinished = np.flatnonzero(more)
        for index in range(1, bytes_max + 1):
            if index == bytes_max:
                raise malformed(SENTENCES[kernel.VARINT_TOO_LONG])
            byte = buffer[np.minimum(positions[unfinished], last)].astype(np.uint64)
            if index == VARLONG_BYTES_MAX - 1 and (byte > 1).any():
                raise malformed(SENTENCES[kernel.VARINT_TOO_LONG])
            number[unfinished] |= (byte & np.uint64(0x7F)) << np.uint64(7 * index)
            positions[unfinished] += 1
            unfinished = unfinished[byte >= 0x80]
            if not len(unfinished):
                break
    if ends is not None and (positions > ends).any():
        raise malformed(SENTENCES[kernel.TOO_SHORT])
    signed = (number >> np.uint64(1)).view(np.int64)
    signed ^= -(number & np.uint64(1)).view(np.int64)
    return signed, positions


def _spans(buffer: Bytes, positions: Int64s, ends: Int64s) -> tuple[Spans, Int64s]:
    """A length and as many bytes at each position, and what follows them."""
    lengths, starts = _varints(buffer, positions, ends, VARINT_BYTES_MAX)
    lengths = np.maximum(lengths, -1)
    if (lengths > ends - starts).any():
        raise malformed(SENTENCES[kernel.FIELD_TOO_LONG])
    return Spans(starts, lengths), starts + np.maximum(lengths, 0)


def _headers_by_numpy(buffer: Bytes, positions: Int64s, counts: Int64s, ends: Int64s) -> tuple[Spans, Spans, Int64s]:
    """The first header of all rows that have one, then the second of all that have two, and so on."""
    firsts = np.cumsum(counts) - counts
    total = int(counts.sum())
    keys, values = (Spans(np.empty(total, np.int64), np.empty(total, np.int64)) for _ in range(2))
    positions = positions.copy()
    rows = np.flatnonzero(counts)
    index = 0
    while len(rows):
        places = firsts[rows] + index
        found, after_key = _spans(buffer, positions[rows], ends[rows])
        if (found.lengths < 0).any():
            raise malformed(SENTENCES[kernel.HEADER_WITHOUT_KEY])
        keys.starts[places], keys.lengths[places] = found.starts, found.lengths
        found, positions[rows] = _spans(buffer, after_key, ends[rows])
        values.starts[places], values.lengths[places] = found.starts, found.lengths
        index += 1
        rows = rows[counts[rows] > index]
    return keys, values, positions


def malformed(sentence: str) -> ProtocolError:
    """What is wrong with records."""
    return ProtocolError(ErrorCode.INVALID_RECORD, sentence)
