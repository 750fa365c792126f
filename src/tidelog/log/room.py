"""How much of a file system is left free for what must always be written: offsets, metadata, indexes, checkpoints.

Decides only; `broker/room_watch.py` measures and tells leaders and followers.
"""

from __future__ import annotations

from typing import Final, NamedTuple

# Of a small file system no more than this share is kept free for the sake of a number of bytes.
SMALL_SHARE_MAX: Final = 10
# Writes are taken again when there is this much more than the limit, so that they do not come and go every second.
COMFORT: Final = 1.02
# Followers go on when leaders refuse, until this part of the limit is left: what was acknowledged elsewhere had better
# be here, too, but not at the price of the room that the broker itself needs.
FOLLOWERS_SHARE: Final = 0.5


class Room(NamedTuple):
    """What a file system said."""

    free_bytes: int
    total_bytes: int


class RoomLimits(NamedTuple):
    """Below either of them a directory takes no more records. Both 0: until the disk is full."""

    percent: float
    bytes: int

    def free_bytes_min(self, total_bytes: int) -> int:
        """What is kept free of a file system of this size."""
        return max(int(total_bytes * self.percent / 100), min(self.bytes, total_bytes // SMALL_SHARE_MAX))

    def is_short(self, room: Room, *, was_short: bool, share: float = 1.0) -> bool:
        """Whether less than the limit is free, or than a share of it."""
        limit = int(self.free_bytes_min(room.total_bytes) * share)
        return room.free_bytes < (int(limit * COMFORT) if was_short else limit)
