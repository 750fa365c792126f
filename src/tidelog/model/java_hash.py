"""Java's hash of a string, by which Kafka decides which partition of an internal topic keeps a group or transaction."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from tidelog.model.ids import PartitionIndex

JAVA_INT_MIN: Final = -(2**31)
REMEMBERED_IDS_MAX: Final = 10_000


def java_string_hash(text: str) -> int:
    """Java's String.hashCode over UTF-16 code units, as a signed 32-bit number."""
    code = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(units), 2):
        code = (31 * code + (units[position] << 8 | units[position + 1])) & 0xFFFFFFFF
    return code - (1 << 32) if code & 0x80000000 else code


# Every request of a group or a transaction asks for the partition of the same id again.
@lru_cache(maxsize=REMEMBERED_IDS_MAX)
def partition_of_id(key: str, partitions: int) -> PartitionIndex:
    """The partition of a group id or transactional id, the same that Apache Kafka chooses."""
    code = java_string_hash(key)
    # Java cannot express the absolute value of its smallest integer; Kafka takes 0 for it.
    return PartitionIndex(0 if code == JAVA_INT_MIN else abs(code) % partitions)
