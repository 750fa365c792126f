"""How fast replicas may be copied while they are moved (KIP-73): bytes a second, for those that are named alone.

A leader holds back what it sends to followers that are not in sync, a follower what it asks for. Who is in sync is
never held back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from tidelog.model.ids import NodeId, PartitionIndex

ALL_REPLICAS: Final = "*"
LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
# Rest that was not used is forgotten after this long.
UNUSED_MS_MAX: Final = 1_000


class Throttle:
    """The bytes of one direction. Who has spent too much waits until the rate has caught up."""

    __slots__ = ("_free_at_ms", "_now_ms", "bytes_per_second")

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._free_at_ms = 0.0
        # None: as fast as it goes.
        self.bytes_per_second: int | None = None

    @property
    def is_exceeded(self) -> bool:
        return self.bytes_per_second is not None and self._free_at_ms > self._now_ms()

    def spend(self, count: int) -> None:
        rate = self.bytes_per_second
        if rate is not None:
            earliest_ms = self._now_ms() - UNUSED_MS_MAX
            self._free_at_ms = max(self._free_at_ms, earliest_ms) + count * 1000 / max(rate, 1)


def is_throttled(listed: Sequence[str], partition: PartitionIndex, node: NodeId) -> bool:
    """Whether a topic's list of `partition:broker` names this replica, or all."""
    return bool(listed) and (ALL_REPLICAS in listed or f"{partition}:{node}" in listed)
