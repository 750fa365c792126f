"""Which partition a record goes to: by the murmur2 of its key as Java's client computes it, or sticky without a key.

Called by the producer for every record without a partition of its own. Chance is handed in, so that a test can decide.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final, Protocol

from tidelog.model.ids import PartitionIndex, TopicName

MURMUR2_SEED: Final = 0x9747B28C
MURMUR2_MULTIPLIER: Final = 0x5BD1E995
MURMUR2_SHIFT: Final = 24
UNSIGNED: Final = 0xFFFFFFFF
POSITIVE: Final = 0x7FFFFFFF
WORD_BYTES: Final = 4
# A sticky partition is left after this many bytes, so that batches fill before the next one begins (KIP-480, KIP-794).
STICKY_BYTES: Final = 16 * 1024

_WORD: Final = Struct("<I")


def murmur2(data: bytes) -> int:
    """The 32 bits of Java's `Utils.murmur2`, as an unsigned number."""
    length = len(data)
    value = MURMUR2_SEED ^ length
    whole = length - length % WORD_BYTES
    for (word,) in _WORD.iter_unpack(data[:whole]):
        word = word * MURMUR2_MULTIPLIER & UNSIGNED
        word ^= word >> MURMUR2_SHIFT
        value = (value * MURMUR2_MULTIPLIER ^ word * MURMUR2_MULTIPLIER) & UNSIGNED
    if whole < length:
        value = (value ^ int.from_bytes(data[whole:], "little")) * MURMUR2_MULTIPLIER & UNSIGNED
    value ^= value >> 13
    value = value * MURMUR2_MULTIPLIER & UNSIGNED
    return value ^ value >> 15


def partition_of_key(key: bytes, partitions: int) -> PartitionIndex:
    """The partition of a key among this many: the same as every Java client's."""
    return PartitionIndex((murmur2(key) & POSITIVE) % partitions)


class Partitioner(Protocol):
    """Chooses a partition."""

    def partition(self, topic: TopicName, key: bytes | None, size_bytes: int, partitions: int) -> PartitionIndex: ...


class StickyPartitioner:
    """Records with a key go by the key; others stay with one partition until it has had a batch's worth of bytes."""

    def __init__(self, choose: Callable[[int], int], sticky_bytes: int = STICKY_BYTES) -> None:
        """`choose(n)` gives any number from 0 to n - 1."""
        self._choose = choose
        self._sticky_bytes = sticky_bytes
        self._current: dict[TopicName, tuple[PartitionIndex, int]] = {}

    def partition(self, topic: TopicName, key: bytes | None, size_bytes: int, partitions: int) -> PartitionIndex:
        if key is not None:
            return partition_of_key(key, partitions)
        index, used_bytes = self._current.get(topic, (PartitionIndex(-1), self._sticky_bytes))
        if used_bytes >= self._sticky_bytes or index >= partitions:
            index, used_bytes = self._next(index, partitions), 0
        self._current[topic] = index, used_bytes + size_bytes
        return index

    def _next(self, current: PartitionIndex, partitions: int) -> PartitionIndex:
        """Any partition but the current one, if there is another."""
        if partitions == 1:
            return PartitionIndex(0)
        if not 0 <= current < partitions:
            return PartitionIndex(self._choose(partitions))
        chosen = self._choose(partitions - 1)
        return PartitionIndex(chosen + 1 if chosen >= current else chosen)
