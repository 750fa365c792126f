"""Which partition of `__consumer_offsets` keeps a group. Its leader is the group's coordinator."""

from __future__ import annotations

from typing import Final

from tidelog.model.ids import PartitionIndex

OFFSETS_TOPIC: Final = "__consumer_offsets"
JAVA_INT_MIN: Final = -(2**31)


def java_string_hash(text: str) -> int:
    """Java's String.hashCode over UTF-16 code units, as a signed 32-bit number."""
    code = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(units), 2):
        code = (31 * code + (units[position] << 8 | units[position + 1])) & 0xFFFFFFFF
    return code - (1 << 32) if code & 0x80000000 else code


def partition_for(group_id: str, partitions: int) -> PartitionIndex:
    """The partition of a group, the same that Apache Kafka chooses."""
    code = java_string_hash(group_id)
    # Java cannot express the absolute value of its smallest integer; Kafka takes 0 for it.
    return PartitionIndex(0 if code == JAVA_INT_MIN else abs(code) % partitions)
