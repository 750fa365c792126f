# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
# cython: annotation_typing=False
"""The walk over the records of batches, one after the other, and the way back: what vector operations do badly.

Plain Python that `kernel.pxd` types for Cython; `fields.py` and `encode.py` call it when it was compiled and do the
same by numpy when it was not. Arrays are filled by the caller's allocation; whatever the bytes claim, nothing outside
of a body is read. Compiled, Python's own checks of indexes are off: every read is behind a comparison with the record's
end, every write behind one with the room that there is.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

try:
    import cython  # type: ignore[import-untyped]
except ImportError:  # Only who compiles it has Cython.
    from tidelog.wire.columns import plain as cython

if not cython.compiled:
    # Compiled, it is C's own, which `kernel.pxd` names: a loop over bytes, in so long a function, C takes byte by byte.
    from tidelog.wire.columns.plain import copy

# Whatever has the buffer protocol: unsigned bytes, numbers that are written to, and bytes that are.
Bytes: TypeAlias = Any
Numbers: TypeAlias = Any
Packed: TypeAlias = Any

# What is wrong with a body, as `walk` says it in `problem`.
TOO_SHORT: Final = 1
LENGTH_WRONG: Final = 2
VARINT_TOO_LONG: Final = 3
FIELD_TOO_LONG: Final = 4
HEADERS_WRONG: Final = 5
HEADER_WITHOUT_KEY: Final = 6
FIELDS_DISAGREE: Final = 7
BYTES_BEHIND: Final = 8

# A body is five numbers: where it begins and ends, how many records it claims, the offset and timestamp that the
# records count from. If the sixth is not 0, the seventh is the timestamp of all of them. The eighth is an answer: rows.
BODY_NUMBERS: Final = 8

# What may be wanted of records.
OFFSETS: Final = 1
TIMESTAMPS: Final = 2
KEYS: Final = 4
VALUES: Final = 8
HEADERS: Final = 16

# Count up with every change: a compiled module of another revision, left over in a checkout, is not used.
REVISION: Final = 4

COMPILED: Final = not __file__.endswith(".py")


def walk(
    buffer: Bytes,
    bodies: Numbers,
    bodies_count: int,
    first_offset: int,
    end_offset: int,
    wanted: int,
    offsets: Numbers,
    timestamps: Numbers,
    keys: Packed,
    key_bounds: Numbers,
    key_nulls: Packed,
    values: Packed,
    value_bounds: Numbers,
    value_nulls: Packed,
    header_starts: Numbers,
    header_counts: Numbers,
    problem: Numbers,
) -> int:
    """Take the wanted fields of each record from `first_offset` on and before `end_offset`; how many, -1 if broken.

    Keys and values are copied behind each other, with bounds of which the first is 0, and a 1 where one is null. What
    is wanted has room for all records that the bodies claim, keys and values for as many bytes as the bodies have.
    """
    # Numbers of this function: those of the module would be looked up for each record.
    takes_offsets = wanted & OFFSETS
    takes_timestamps = wanted & TIMESTAMPS
    takes_keys = wanted & KEYS
    takes_values = wanted & VALUES
    takes_headers = wanted & HEADERS
    key_end = 0
    value_end = 0
    row = 0
    for body in range(bodies_count):
        at = body * BODY_NUMBERS
        position = bodies[at]
        limit = bodies[at + 1]
        count = bodies[at + 2]
        base_offset = bodies[at + 3]
        base_timestamp = bodies[at + 4]
        log_append = bodies[at + 5]
        append_time = bodies[at + 6]
        first_row = row
        for _ in range(count):
            # The record's length.
            number = 0
            shift = 0
            while True:
                if position >= limit:
                    return failed(problem, TOO_SHORT, body, position)
                byte = buffer[position]
                position += 1
                number |= (byte & 0x7F) << shift
                if byte < 0x80:
                    break
                shift += 7
                if shift >= 35:
                    return failed(problem, VARINT_TOO_LONG, body, position)
            if number & 1 or number >> 1 > limit - position:
                return failed(problem, LENGTH_WRONG, body, position)
            end = position + (number >> 1)
            position += 1  # The record's attributes, which nobody uses.
            # The timestamp: the one number that may take ten bytes, of which the last holds a single bit.
            wide = 0
            shift = 0
            while True:
                if position >= end:
                    return failed(problem, TOO_SHORT, body, position)
                byte = buffer[position]
                position += 1
                if shift == 63 and byte > 1:
                    return failed(problem, VARINT_TOO_LONG, body, position)
                wide |= as_wide(byte & 0x7F) << shift
                if byte < 0x80:
                    break
                shift += 7
            timestamp_delta = unzigzag(wide)
            # The offset.
            number = 0
            shift = 0
            while True:
                if position >= end:
                    return failed(problem, TOO_SHORT, body, position)
                byte = buffer[position]
                position += 1
                number |= (byte & 0x7F) << shift
                if byte < 0x80:
                    break
                shift += 7
                if shift >= 35:
                    return failed(problem, VARINT_TOO_LONG, body, position)
            offset = base_offset + ((number >> 1) ^ -(number & 1))
            # The key.
            number = 0
            shift = 0
            while True:
                if position >= end:
                    return failed(problem, TOO_SHORT, body, position)
                byte = buffer[position]
                position += 1
                number |= (byte & 0x7F) << shift
                if byte < 0x80:
                    break
                shift += 7
                if shift >= 35:
                    return failed(problem, VARINT_TOO_LONG, body, position)
            key_start = position
            key_length = -1 if number & 1 else number >> 1
            if key_length > end - position:
                return failed(problem, FIELD_TOO_LONG, body, position)
            if key_length > 0:
                position += key_length
            # The value.
            number = 0
            shift = 0
            while True:
                if position >= end:
                    return failed(problem, TOO_SHORT, body, position)
                byte = buffer[position]
                position += 1
                number |= (byte & 0x7F) << shift
                if byte < 0x80:
                    break
                shift += 7
                if shift >= 35:
                    return failed(problem, VARINT_TOO_LONG, body, position)
            value_start = position
            value_length = -1 if number & 1 else number >> 1
            if value_length > end - position:
                return failed(problem, FIELD_TOO_LONG, body, position)
            if value_length > 0:
                position += value_length
            # The headers, which most records do not have.
            if position >= end:
                return failed(problem, TOO_SHORT, body, position)
            header_count = 0
            if buffer[position] == 0:
                position += 1
                header_start = position
            else:
                number = 0
                shift = 0
                while True:
                    if position >= end:
                        return failed(problem, TOO_SHORT, body, position)
                    byte = buffer[position]
                    position += 1
                    number |= (byte & 0x7F) << shift
                    if byte < 0x80:
                        break
                    shift += 7
                    if shift >= 35:
                        return failed(problem, VARINT_TOO_LONG, body, position)
                if number & 1 or number >> 1 > end - position:
                    return failed(problem, HEADERS_WRONG, body, position)
                header_count = number >> 1
                header_start = position
                for part in range(2 * header_count):
                    number = 0
                    shift = 0
                    while True:
                        if position >= end:
                            return failed(problem, TOO_SHORT, body, position)
                        byte = buffer[position]
                        position += 1
                        number |= (byte & 0x7F) << shift
                        if byte < 0x80:
                            break
                        shift += 7
                        if shift >= 35:
                            return failed(problem, VARINT_TOO_LONG, body, position)
                    if number & 1:
                        if part & 1 == 0:
                            return failed(problem, HEADER_WITHOUT_KEY, body, position)
                    else:
                        if number >> 1 > end - position:
                            return failed(problem, FIELD_TOO_LONG, body, position)
                        position += number >> 1
            if position != end:
                return failed(problem, FIELDS_DISAGREE, body, position)
            if first_offset <= offset < end_offset:
                if takes_offsets:
                    offsets[row] = offset
                if takes_timestamps:
                    timestamps[row] = append_time if log_append else base_timestamp + timestamp_delta
                if takes_keys:
                    if key_length > 0:
                        copy(keys, key_end, buffer, key_start, key_length)
                        key_end += key_length
                    key_nulls[row] = key_length < 0
                    key_bounds[row + 1] = key_end
                if takes_values:
                    if value_length > 0:
                        copy(values, value_end, buffer, value_start, value_length)
                        value_end += value_length
                    value_nulls[row] = value_length < 0
                    value_bounds[row + 1] = value_end
                if takes_headers:
                    header_starts[row] = header_start
                    header_counts[row] = header_count
                row += 1
        if position != limit:
            return failed(problem, BYTES_BEHIND, body, position)
        bodies[at + 7] = row - first_row
    return row


def walk_headers(
    buffer: Bytes,
    header_starts: Numbers,
    header_counts: Numbers,
    rows: int,
    key_starts: Numbers,
    key_lengths: Numbers,
    value_starts: Numbers,
    value_lengths: Numbers,
) -> None:
    """Note the fields of the headers of records that `walk` has found, so that their bytes are known to be right."""
    index = 0
    for row in range(rows):
        position = header_starts[row]
        for _ in range(header_counts[row]):
            number = 0
            shift = 0
            while True:
                byte = buffer[position]
                position += 1
                number |= (byte & 0x7F) << shift
                if byte < 0x80:
                    break
                shift += 7
            key_starts[index] = position
            key_lengths[index] = number >> 1
            position += number >> 1
            number = 0
            shift = 0
            while True:
                byte = buffer[position]
                position += 1
                number |= (byte & 0x7F) << shift
                if byte < 0x80:
                    break
                shift += 7
            value_starts[index] = position
            if number & 1:
                value_lengths[index] = -1
            else:
                value_lengths[index] = number >> 1
                position += number >> 1
            index += 1


def gather(buffer: Bytes, starts: Numbers, lengths: Numbers, rows: int, bounds: Numbers, out: Numbers) -> None:
    """Copy the bytes of each row behind those of the last, and note where each ends. Lengths of -1 are null.

    What `walk` has found lies inside the buffer, and `out` is as long as the lengths together.
    """
    position = 0
    bounds[0] = 0
    for row in range(rows):
        length = lengths[row]
        if length > 0:
            copy(out, position, buffer, starts[row], length)
            position += length
        bounds[row + 1] = position


def write(
    out: Numbers,
    bounds: Numbers,
    batches: int,
    timestamps: Numbers,
    key_data: Bytes,
    key_starts: Numbers,
    key_lengths: Numbers,
    value_data: Bytes,
    value_starts: Numbers,
    value_lengths: Numbers,
    header_data: Bytes,
    header_starts: Numbers,
    header_lengths: Numbers,
    header_counts: Numbers,
    ends: Numbers,
) -> int:
    """Write the records of batches, the rows from each of `bounds` to the next, and note where each batch ends.

    Lengths of -1 are null. Headers are encoded already, so many bytes for so many of them. The answer is how many bytes
    were written; -1 if `out` had no room for them, which is then not written beyond.
    """
    position = 0
    room = len(out)
    for batch in range(batches):
        first = bounds[batch]
        base_timestamp = timestamps[first]
        for row in range(first, bounds[batch + 1]):
            time = zigzag(timestamps[row] - base_timestamp)
            key_length = key_lengths[row]
            value_length = value_lengths[row]
            key_bytes = key_length if key_length > 0 else 0
            value_bytes = value_length if value_length > 0 else 0
            header_bytes = header_lengths[row]
            header_count = header_counts[row]
            length = 1 + size_of(time) + size_of(as_wide(2 * (row - first)))
            length += size_of(zigzag(key_length)) + key_bytes + size_of(zigzag(value_length)) + value_bytes
            length += size_of(as_wide(2 * header_count)) + header_bytes
            # At most as much as a number of ten bytes more than the record itself.
            if position + length + 10 > room:
                return -1
            number = as_wide(2 * length)
            while number > 0x7F:
                out[position] = number & 0x7F | 0x80
                number >>= 7
                position += 1
            out[position] = number
            position += 1
            out[position] = 0
            position += 1
            while time > 0x7F:
                out[position] = time & 0x7F | 0x80
                time >>= 7
                position += 1
            out[position] = time
            position += 1
            number = as_wide(2 * (row - first))
            while number > 0x7F:
                out[position] = number & 0x7F | 0x80
                number >>= 7
                position += 1
            out[position] = number
            position += 1
            number = zigzag(key_length)
            while number > 0x7F:
                out[position] = number & 0x7F | 0x80
                number >>= 7
                position += 1
            out[position] = number
            position += 1
            if key_bytes:
                copy(out, position, key_data, key_starts[row], key_bytes)
                position += key_bytes
            number = zigzag(value_length)
            while number > 0x7F:
                out[position] = number & 0x7F | 0x80
                number >>= 7
                position += 1
            out[position] = number
            position += 1
            if value_bytes:
                copy(out, position, value_data, value_starts[row], value_bytes)
                position += value_bytes
            number = as_wide(2 * header_count)
            while number > 0x7F:
                out[position] = number & 0x7F | 0x80
                number >>= 7
                position += 1
            out[position] = number
            position += 1
            if header_bytes:
                copy(out, position, header_data, header_starts[row], header_bytes)
                position += header_bytes
        ends[batch] = position
    return position


def failed(problem: Numbers, code: int, body: int, position: int) -> int:
    """Say what is wrong and where; the answer of a walk that did not arrive."""
    problem[0] = code
    problem[1] = body
    problem[2] = position
    return -1


def as_wide(byte: int) -> int:
    """A byte in the width in which ten of seven bits are put together: C would shift it as an int."""
    return byte


def unzigzag(number: int) -> int:
    """The signed number that 64 unsigned bits stand for."""
    return (number >> 1) ^ -(number & 1)


def zigzag(number: int) -> int:
    """The unsigned bits that stand for a signed number of 64."""
    return (number << 1) ^ (number >> 63)


def size_of(number: int) -> int:
    """How many bytes an unsigned varint has."""
    size = 1
    while number > 0x7F:
        number >>= 7
        size += 1
    return size
