"""Which partition a record goes to: by the murmur2 of its key as Java's client computes it, or sticky without a key.

Called by the producer for every record without a partition of its own. Chance is handed in, so that a test can decide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any, Final, Protocol, TypeAlias, cast

from tidelog.client.errors import InvalidOption
from tidelog.model.ids import PartitionIndex, TopicName

MURMUR2_SEED: Final = 0x9747B28C
MURMUR2_MULTIPLIER: Final = 0x5BD1E995
MURMUR2_SHIFT: Final = 24
UNSIGNED: Final = 0xFFFFFFFF
POSITIVE: Final = 0x7FFFFFFF
WORD_BYTES: Final = 4
# A sticky partition is left after this many bytes, so that batches fill before the next one begins (KIP-480, KIP-794).
STICKY_BYTES: Final = 16 * 1024

Loads: TypeAlias = Callable[[str, int], Sequence[int]]

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
    """Chooses among `partitions`, numbered from 0. Asked for every record without a partition of its own."""

    def partition(self, topic: TopicName, key: bytes | None, size_bytes: int, partitions: int) -> PartitionIndex: ...


class StickyPartitioner:
    """Records with a key go by the key; others stay with one partition until it has had a batch's worth of bytes.

    The next one is chosen by chance; partitions for which batches are waiting already are chosen less often (KIP-794).
    """

    def __init__(
        self, choose: Callable[[int], int], sticky_bytes: int = STICKY_BYTES, loads: Loads | None = None
    ) -> None:
        """`choose(n)` gives any number from 0 to n - 1, `loads(topic, n)` how many batches wait for each partition."""
        self._choose = choose
        self._sticky_bytes = sticky_bytes
        self._loads = loads
        self._current: dict[TopicName, tuple[PartitionIndex, int]] = {}

    def partition(self, topic: TopicName, key: bytes | None, size_bytes: int, partitions: int) -> PartitionIndex:
        if key is not None:
            return partition_of_key(key, partitions)
        index, used_bytes = self._current.get(topic, (PartitionIndex(-1), self._sticky_bytes))
        if used_bytes >= self._sticky_bytes or index >= partitions:
            index, used_bytes = self._next(topic, index, partitions), 0
        self._current[topic] = index, used_bytes + size_bytes
        return index

    def _next(self, topic: TopicName, current: PartitionIndex, partitions: int) -> PartitionIndex:
        """Any partition but the current one, if there is another."""
        if partitions == 1:
            return PartitionIndex(0)
        loads = None if self._loads is None else self._loads(topic, partitions)
        if loads is not None and max(loads) != min(loads):
            return _by_load(loads, self._choose)
        if not 0 <= current < partitions:
            return PartitionIndex(self._choose(partitions))
        chosen = self._choose(partitions - 1)
        return PartitionIndex(chosen + 1 if chosen >= current else chosen)


class RoundRobinPartitioner:
    """One record for each partition in turn, whatever the key."""

    def __init__(self) -> None:
        self._counts: dict[TopicName, int] = {}

    def partition(self, topic: TopicName, key: bytes | None, size_bytes: int, partitions: int) -> PartitionIndex:
        count = self._counts.get(topic, 0)
        self._counts[topic] = count + 1
        return PartitionIndex(count % partitions)


class RandomPartitioner:
    """Any partition, whatever the key."""

    def __init__(self, choose: Callable[[int], int]) -> None:
        self._choose = choose

    def partition(self, topic: TopicName, key: bytes | None, size_bytes: int, partitions: int) -> PartitionIndex:
        return PartitionIndex(self._choose(partitions))


class Murmur2Partitioner:
    """By the key alone, as Java's clients do; records without a key count as those of an empty one."""

    def partition(self, topic: TopicName, key: bytes | None, size_bytes: int, partitions: int) -> PartitionIndex:
        return partition_of_key(key or b"", partitions)


class ExplicitPartitioner:
    """Refuses to choose: every record names its partition."""

    def partition(self, topic: TopicName, key: bytes | None, size_bytes: int, partitions: int) -> PartitionIndex:
        raise InvalidOption(f"partitioner=explicit: a record for '{topic}' names no partition.")


def partitioner_of(given: Any, choose: Callable[[int], int], sticky_bytes: int, loads: Loads) -> Partitioner:
    """What the setting `partitioner` means: a name, a class, an object, or a function of (topic, key, partitions)."""
    if isinstance(given, str):
        named: dict[str, Callable[[], Partitioner]] = {
            "sticky": lambda: StickyPartitioner(choose, sticky_bytes, loads),
            "round_robin": RoundRobinPartitioner,
            "random": lambda: RandomPartitioner(choose),
            "murmur2": Murmur2Partitioner,
            "explicit": ExplicitPartitioner,
        }
        name = given.lower().replace("-", "_").replace("roundrobin", "round_robin")
        if name not in named:
            raise InvalidOption(f"There is no partitioner {given!r}; there are {', '.join(named)}.")
        return named[name]()
    made = given() if isinstance(given, type) else given
    if hasattr(made, "partition"):
        return cast(Partitioner, made)
    if callable(made):
        return _FunctionPartitioner(made)
    raise InvalidOption(f"{given!r} is no partitioner: it has no method `partition` and cannot be called.")


class _FunctionPartitioner:
    def __init__(self, function: Callable[[str, bytes | None, int], int]) -> None:
        self._function = function

    def partition(self, topic: TopicName, key: bytes | None, size_bytes: int, partitions: int) -> PartitionIndex:
        return PartitionIndex(self._function(topic, key, partitions))


def _by_load(loads: Sequence[int], choose: Callable[[int], int]) -> PartitionIndex:
    """The longer the line of a partition, the less likely it is chosen; the longest has still a chance."""
    top = max(loads) + 1
    number = choose(sum(top - load for load in loads))
    for index, load in enumerate(loads):
        number -= top - load
        if number < 0:
            return PartitionIndex(index)
    raise AssertionError("the number is below the sum of the chances")
