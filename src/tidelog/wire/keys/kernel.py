# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
# cython: annotation_typing=False
"""A table of the newest offset of each key, filled and asked for whole buffers of records while other threads run.

Plain Python that `kernel.pxd` types for Cython; `log/key_table.py` calls it when it was compiled. Everything works on
the caller's arrays. Whatever the bytes claim, nothing outside of a body is read: compiled, Python's own checks of
indexes are off, so every read is behind a comparison with the record's end.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

try:
    import cython  # type: ignore[import-untyped, unused-ignore]
except ImportError:
    from tidelog.wire.keys import uncompiled as cython

# Whatever has the buffer protocol: unsigned bytes, and 64-bit numbers.
Bytes: TypeAlias = Any
Numbers: TypeAlias = Any

# Count up with every change: a compiled module of another revision, left over in a checkout, is not used.
REVISION: Final = 1
COMPILED: Final = not __file__.endswith(".py")

# The next three are written out as numbers below, since code that runs beside other threads sees no Python constants.

# A body is five numbers: where it begins and ends, how many records it claims, the offset that they count from, and how
# it is judged: +1 by the marks, +2 tombstones stay. Five more are answers: how many records stay and how many of them
# are tombstones, the largest timestamp of them as it is written, and where they begin and end in what was copied.
BODY_NUMBERS: Final = 10
# A row is a record: where it begins and ends, its offset, where its key begins, the key's length (-1: null), whether it
# is a tombstone, its timestamp as it is written, and its body.
ROW_NUMBERS: Final = 8
# A slot of the table is the 128 bits of a key's hash, and twice the offset, plus one for a tombstone, plus one. 0 is
# an empty slot.
SLOT_NUMBERS: Final = 3
# Where a walk is: the body, the position in the buffer (-1: at the body's beginning), records of the body so far.
WALK_NUMBERS: Final = 3


def note(
    buffer: Bytes,
    bodies: Numbers,
    bodies_count: int,
    walk: Numbers,
    rows: Numbers,
    rows_max: int,
    hashes: Numbers,
    secret: Numbers,
    table: Numbers,
    slots: int,
    entries: int,
) -> int:
    """Put the keys of all bodies into the table; returns how many keys it has then, -1 if a body is broken.

    The table must have more slots than it gets keys. Which body is broken is in `walk`.
    """
    result = entries
    with cython.nogil:
        while True:
            count = locate(buffer, bodies, bodies_count, walk, rows, rows_max)
            if count < 0:
                result = -1
                break
            if count == 0:
                break
            hash_rows(buffer, bodies, rows, count, secret, hashes, 0)
            result = insert(table, slots, rows, count, hashes, result)
    return result


def keep(
    buffer: Bytes,
    bodies: Numbers,
    bodies_count: int,
    walk: Numbers,
    rows: Numbers,
    rows_max: int,
    hashes: Numbers,
    secret: Numbers,
    table: Numbers,
    slots: int,
    marks: Bytes,
    marks_first: int,
    marks_count: int,
    out: Bytes,
) -> int:
    """Copy the records that stay, body by body, to `out`, which is as long as `buffer`; -1 if a body is broken."""
    result = 0
    with cython.nogil:
        while True:
            count = locate(buffer, bodies, bodies_count, walk, rows, rows_max)
            if count < 0:
                result = -1
                break
            if count == 0:
                break
            hash_rows(buffer, bodies, rows, count, secret, hashes, 1)
            result = copy(
                buffer, bodies, rows, count, hashes, table, slots, marks, marks_first, marks_count, out, result
            )
    return result


def locate(buffer: Bytes, bodies: Numbers, bodies_count: int, walk: Numbers, rows: Numbers, rows_max: int) -> int:
    """Note where the next records and their keys are; how many, 0 when there are no more, -1 if one is broken."""
    row = 0
    body = walk[0]
    position = walk[1]
    done = walk[2]
    while body < bodies_count and row < rows_max:
        at = body * 10
        limit = bodies[at + 1]
        count = bodies[at + 2]
        base_offset = bodies[at + 3]
        walk[0] = body
        if position < 0:
            position = bodies[at]
        while done < count and row < rows_max:
            start = position
            # The record's length.
            number = 0
            shift = 0
            while True:
                if position >= limit or shift > 28:
                    return -1
                byte = buffer[position]
                position += 1
                number |= (byte & 0x7F) << shift
                if byte < 0x80:
                    break
                shift += 7
            if number & 1 or number >> 1 > limit - position:
                return -1
            end = position + (number >> 1)
            position += 1  # The record's attributes, which nobody uses.
            # The timestamp: the one number that may take ten bytes, of which the last holds a single bit.
            wide = 0
            shift = 0
            while True:
                if position >= end:
                    return -1
                byte = buffer[position]
                position += 1
                if shift == 63 and byte > 1:
                    return -1
                wide |= as_wide(byte & 0x7F) << shift
                if byte < 0x80:
                    break
                shift += 7
            timestamp_delta = unzigzag(wide)
            # The offset.
            number = 0
            shift = 0
            while True:
                if position >= end or shift > 28:
                    return -1
                byte = buffer[position]
                position += 1
                number |= (byte & 0x7F) << shift
                if byte < 0x80:
                    break
                shift += 7
            if number & 1:
                return -1
            offset = base_offset + (number >> 1)
            # The key.
            number = 0
            shift = 0
            while True:
                if position >= end or shift > 28:
                    return -1
                byte = buffer[position]
                position += 1
                number |= (byte & 0x7F) << shift
                if byte < 0x80:
                    break
                shift += 7
            key_start = position
            key_length = -1 if number & 1 else number >> 1
            if key_length > end - position:
                return -1
            if key_length > 0:
                position += key_length
            # The value, of which only matters whether there is one.
            number = 0
            shift = 0
            while True:
                if position >= end or shift > 28:
                    return -1
                byte = buffer[position]
                position += 1
                number |= (byte & 0x7F) << shift
                if byte < 0x80:
                    break
                shift += 7
            if number & 1 == 0 and number >> 1 > end - position:
                return -1
            place = row * 8
            rows[place] = start
            rows[place + 1] = end
            rows[place + 2] = offset
            rows[place + 3] = key_start
            rows[place + 4] = key_length
            rows[place + 5] = number & 1
            rows[place + 6] = timestamp_delta
            rows[place + 7] = body
            row += 1
            done += 1
            position = end
        if done == count:
            if position != limit:
                return -1
            body += 1
            position = -1
            done = 0
    walk[0] = body
    walk[1] = position
    walk[2] = done
    return row


def hash_rows(
    buffer: Bytes, bodies: Numbers, rows: Numbers, count: int, secret: Numbers, hashes: Numbers, skip_marked: int
) -> None:
    """SipHash-2-4 with 128 bits of each key: who does not know the secret can make no two keys collide.

    `secret` is the state that hashing begins with.
    """
    for row in range(count):
        place = row * 8
        length = rows[place + 4]
        if length < 0 or (skip_marked and bodies[rows[place + 7] * 10 + 4] & 1):
            continue
        position = rows[place + 3]
        words = length >> 3
        v0 = secret[0]
        v1 = secret[1]
        v2 = secret[2]
        v3 = secret[3]
        # The whole words, the rest with the length, and one turn for either half of the hash.
        for step in range(words + 3):
            word = 0
            rounds = 2
            if step < words:
                word = (
                    as_wide(buffer[position])
                    | as_wide(buffer[position + 1]) << 8
                    | as_wide(buffer[position + 2]) << 16
                    | as_wide(buffer[position + 3]) << 24
                    | as_wide(buffer[position + 4]) << 32
                    | as_wide(buffer[position + 5]) << 40
                    | as_wide(buffer[position + 6]) << 48
                    | as_wide(buffer[position + 7]) << 56
                )
                position += 8
            elif step == words:
                word = as_wide(length & 0xFF) << 56
                for index in range(length & 7):
                    word |= as_wide(buffer[position + index]) << (8 * index)
            elif step == words + 1:
                v2 ^= 0xEE
                rounds = 4
            else:
                v1 ^= 0xDD
                rounds = 4
            v3 ^= word
            for _ in range(rounds):
                v0 = wrap(v0 + v1)
                v1 = wrap(v1 << 13) | (v1 >> 51)
                v1 ^= v0
                v0 = wrap(v0 << 32) | (v0 >> 32)
                v2 = wrap(v2 + v3)
                v3 = wrap(v3 << 16) | (v3 >> 48)
                v3 ^= v2
                v0 = wrap(v0 + v3)
                v3 = wrap(v3 << 21) | (v3 >> 43)
                v3 ^= v0
                v2 = wrap(v2 + v1)
                v1 = wrap(v1 << 17) | (v1 >> 47)
                v1 ^= v2
                v2 = wrap(v2 << 32) | (v2 >> 32)
            v0 ^= word
            if step == words + 1:
                hashes[2 * row] = v0 ^ v1 ^ v2 ^ v3
        hashes[2 * row + 1] = v0 ^ v1 ^ v2 ^ v3


def insert(table: Numbers, slots: int, rows: Numbers, count: int, hashes: Numbers, entries: int) -> int:
    """Note for each key its offset, which is newer than what was noted before. Returns how many keys there are."""
    for row in range(count):
        place = row * 8
        if rows[place + 4] < 0:
            continue  # A record without key supersedes nothing.
        first = hashes[2 * row]
        second = hashes[2 * row + 1]
        number = as_wide(2 * rows[place + 2] + rows[place + 5] + 1)
        # The share that 32 bits of the hash are of all slots, which are fewer. Taken slots are passed one by one.
        slot = (first >> 32) * slots >> 32
        while True:
            at = 3 * slot
            if table[at + 2] == 0:
                table[at] = first
                table[at + 1] = second
                entries += 1
                break
            if table[at] == first and table[at + 1] == second:
                break
            slot += 1
            if slot == slots:
                slot = 0
        table[at + 2] = number
    return entries


def copy(
    buffer: Bytes,
    bodies: Numbers,
    rows: Numbers,
    count: int,
    hashes: Numbers,
    table: Numbers,
    slots: int,
    marks: Bytes,
    marks_first: int,
    marks_count: int,
    out: Bytes,
    position: int,
) -> int:
    """Judge the rows and copy what stays from `position` on; returns where that ends.

    The newest record of its key stays, and so does one whose key is not in the table. One without key goes.
    """
    run_start = 0
    run_end = 0
    for row in range(count):
        place = row * 8
        at_body = rows[place + 7] * 10
        flags = bodies[at_body + 4]
        offset = rows[place + 2]
        stays = 1
        if rows[place + 4] < 0 or (rows[place + 5] and flags & 2 == 0):
            stays = 0
        elif flags & 1:
            # A record whose offset is not one of its batch was noted, too, and is not lost for it.
            bit = offset - marks_first
            if 0 <= bit < marks_count:
                stays = marks[bit >> 3] >> (bit & 7) & 1
        else:
            first = hashes[2 * row]
            second = hashes[2 * row + 1]
            slot = (first >> 32) * slots >> 32
            while True:
                at = 3 * slot
                if table[at + 2] == 0:
                    break
                if table[at] == first and table[at + 1] == second:
                    if (table[at + 2] - 1) >> 1 > as_wide(offset):
                        stays = 0
                    break
                slot += 1
                if slot == slots:
                    slot = 0
        if stays == 0:
            continue
        if rows[place] != run_end:
            # Neighbours are copied together.
            if run_end > run_start:
                move(buffer, run_start, run_end - run_start, out, position - (run_end - run_start))
            run_start = rows[place]
        run_end = rows[place + 1]
        if bodies[at_body + 5] == 0:
            bodies[at_body + 7] = rows[place + 6]
            bodies[at_body + 8] = position
        elif rows[place + 6] > bodies[at_body + 7]:
            bodies[at_body + 7] = rows[place + 6]
        bodies[at_body + 5] += 1
        bodies[at_body + 6] += rows[place + 5]
        position += rows[place + 1] - rows[place]
        bodies[at_body + 9] = position
    if run_end > run_start:
        move(buffer, run_start, run_end - run_start, out, position - (run_end - run_start))
    return position


def mark(table: Numbers, slots: int, first_offset: int, marks: Bytes, marks_count: int) -> None:
    """Mark which offsets from `first_offset` on are the newest of their key, a bit for each of so many."""
    with cython.nogil:
        for at in range(marks_count >> 3):
            marks[at] = 0
        for slot in range(slots):
            number = table[3 * slot + 2]
            if number == 0:
                continue
            offset = as_signed((number - 1) >> 1) - first_offset
            if 0 <= offset < marks_count:
                marks[offset >> 3] |= 1 << (offset & 7)


def is_any_marked(marks: Bytes, first: int, last: int) -> bool:
    """Whether one of the bits from `first` to `last` is set."""
    result = 0
    at = first
    while at <= last and result == 0:
        if at & 7 == 0 and last - at >= 8:
            result = marks[at >> 3]
            at += 8
        else:
            result = marks[at >> 3] >> (at & 7) & 1
            at += 1
    return result != 0


def rebase(records: Bytes, shift_ms: int, is_fixed: bool, out: Bytes) -> int:
    """Write records anew whose timestamps count from another time, `shift_ms` later; returns how long they are then.

    If fixed, all timestamps are -`shift_ms`. The records were located, so they are whole, and `out` has room for them:
    a record gets at most as many bytes longer as the largest number takes.
    """
    position = 0
    written = 0
    size = len(records)
    with cython.nogil:
        while position < size:
            number = 0
            shift = 0
            while True:
                byte = records[position]
                position += 1
                number |= (byte & 0x7F) << shift
                if byte < 0x80:
                    break
                shift += 7
            end = position + (number >> 1)
            attributes = records[position]
            position += 1
            wide = 0
            shift = 0
            while True:
                byte = records[position]
                position += 1
                wide |= as_wide(byte & 0x7F) << shift
                if byte < 0x80:
                    break
                shift += 7
            delta = (0 if is_fixed else unzigzag(wide)) - shift_ms
            wide = zigzag(delta)
            length = 2 + end - position
            rest = wide
            while rest > 0x7F:
                rest >>= 7
                length += 1
            number = 2 * length
            while number > 0x7F:
                out[written] = number & 0x7F | 0x80
                number >>= 7
                written += 1
            out[written] = number
            out[written + 1] = attributes
            written += 2
            while wide > 0x7F:
                out[written] = wide & 0x7F | 0x80
                wide >>= 7
                written += 1
            out[written] = wide
            written += 1
            move(records, position, end - position, out, written)
            written += end - position
            position = end
    return written


if not cython.compiled:

    def wrap(number: int) -> int:
        """A number as the 64 bits that C has of it."""
        return number & 0xFFFFFFFFFFFFFFFF

    def as_wide(number: int) -> int:
        """A number in the width in which bytes are put together: C would shift them as an int."""
        return number

    def as_signed(number: int) -> int:
        return number

    def unzigzag(number: int) -> int:
        """The signed number that 64 unsigned bits stand for."""
        return (number >> 1) ^ -(number & 1)

    def zigzag(number: int) -> int:
        """The unsigned bits that stand for a signed number of 64."""
        return (number << 1) ^ (number >> 63)

    def move(source: Bytes, start: int, length: int, target: Bytes, position: int) -> None:
        """Copy bytes; both ends have room."""
        target[position : position + length] = source[start : start + length]
