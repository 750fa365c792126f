"""Kafka's hash of keys, of a whole column at once: the same numbers as Java's client computes one by one."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tidelog.wire.columns.fields import Int64s

Hashes: TypeAlias = NDArray[np.uint32]

SEED: Final = np.uint32(0x9747B28C)
MULTIPLIER: Final = np.uint32(0x5BD1E995)
SHIFT: Final = np.uint32(24)
POSITIVE: Final = np.uint32(0x7FFFFFFF)
WORD_BYTES: Final = 4


def murmur2(keys: Any) -> Hashes:
    """The hash of each value of an Arrow binary array; of null it is that of no bytes."""
    rows = len(keys)
    _, bounds, data = keys.buffers()
    ends = np.frombuffer(bounds, np.int32)[keys.offset : keys.offset + rows + 1].astype(np.int64)
    starts, lengths = ends[:-1], np.diff(ends)
    hashes: Hashes = SEED ^ lengths.astype(np.uint32)
    if data is None or not int(lengths.sum()):
        return _finish(hashes)
    # Three bytes more, so that a word can be read at every place; what is too much is masked out.
    raw = np.concatenate((np.frombuffer(data, np.uint8), np.zeros(WORD_BYTES - 1, np.uint8)))
    words: Hashes = np.ndarray((len(raw) - WORD_BYTES + 1,), "<u4", raw.data, strides=(1,))
    whole = lengths // WORD_BYTES
    rows_left = np.flatnonzero(whole)
    index = 0
    while len(rows_left):
        word = words[starts[rows_left] + WORD_BYTES * index] * MULTIPLIER
        word ^= word >> SHIFT
        hashes[rows_left] = (hashes[rows_left] * MULTIPLIER) ^ (word * MULTIPLIER)
        index += 1
        rows_left = rows_left[whole[rows_left] > index]
    rest = lengths % WORD_BYTES
    unfinished = np.flatnonzero(rest)
    if len(unfinished):
        tails = words[starts[unfinished] + WORD_BYTES * whole[unfinished]]
        tails = tails & ((np.uint32(1) << (8 * rest[unfinished]).astype(np.uint32)) - np.uint32(1))
        hashes[unfinished] = (hashes[unfinished] ^ tails) * MULTIPLIER
    return _finish(hashes)


def partitions_of_keys(keys: Any, partitions: int) -> Int64s:
    """The partition of each key among so many."""
    found: Int64s = ((murmur2(keys) & POSITIVE) % np.uint32(partitions)).astype(np.int64)
    return found


def _finish(hashes: Hashes) -> Hashes:
    hashes ^= hashes >> np.uint32(13)
    hashes *= MULTIPLIER
    hashes ^= hashes >> np.uint32(15)
    return hashes
