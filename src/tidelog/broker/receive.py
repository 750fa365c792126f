"""Memory into which sockets are read.

One arena serves every connection of a loop turn by bump allocation, so what is held is what really arrived, not a
buffer for each connection. Views into it are valid until the turn is settled: whoever keeps bytes longer copies them.
"""

from __future__ import annotations

from typing import Final

ARENA_BYTES: Final = 512 * 1024
# Never offer recv() less than this, or many small reads would replace one.
ROOM_BYTES_MIN: Final = 64 * 1024
# A turn that has taken in this much is settled before more is read.
TURN_BYTES_MAX: Final = 8 * 1024 * 1024
# Frames that do not fit in the arena's room get a buffer of their own, at first of this size, grown as bytes arrive:
# a frame that only claims to be large costs nothing.
LARGE_FIRST_BYTES: Final = 1024 * 1024
LARGE_KEPT_MAX: Final = 8


class Arena:
    """Room for the bytes of one loop turn."""

    __slots__ = ("_current", "_full", "_position", "_spare", "taken_bytes")

    def __init__(self) -> None:
        self._current = memoryview(bytearray(ARENA_BYTES))
        self._position = 0
        self._full: list[memoryview] = []
        self._spare: list[memoryview] = []
        self.taken_bytes = 0

    def room(self) -> memoryview:
        """A writable view of at least ROOM_BYTES_MIN bytes; `take` says how much of it was used."""
        if ARENA_BYTES - self._position < ROOM_BYTES_MIN:
            self._full.append(self._current)
            self._current = self._spare.pop() if self._spare else memoryview(bytearray(ARENA_BYTES))
            self._position = 0
        return self._current[self._position :]

    def take(self, count: int) -> None:
        self._position += count
        self.taken_bytes += count

    def reset(self) -> None:
        """Forget the turn's bytes; one spare block is kept for the next busy turn."""
        self._position = 0
        self.taken_bytes = 0
        if self._full:
            self._spare = self._full[:1]
            self._full = []


class LargeBuffers:
    """Buffers for frames larger than the arena's room, kept for re-use because fresh pages cost more than the copy."""

    __slots__ = ("_free", "held_bytes", "held_bytes_max", "used_this_turn")

    def __init__(self, held_bytes_max: int) -> None:
        self._free: list[bytearray] = []
        self.used_this_turn: list[bytearray] = []
        self.held_bytes = 0
        self.held_bytes_max = held_bytes_max

    def take(self, size: int) -> bytearray | None:
        """A buffer of at least min(size, LARGE_FIRST_BYTES) bytes; None when the memory in flight is used up."""
        wanted = min(size, LARGE_FIRST_BYTES)
        for index, buffer in enumerate(self._free):
            if len(buffer) >= wanted:
                del self._free[index]
                self.held_bytes += len(buffer)
                return buffer
        return self._allocate(wanted)

    def grow(self, buffer: bytearray, filled: int, size: int) -> bytearray | None:
        """The same bytes in a buffer twice as large (at most `size`), or None when there is no memory left for it."""
        larger = self._allocate(min(size, 2 * len(buffer)))
        if larger is None:
            return None
        larger[:filled] = memoryview(buffer)[:filled]
        self.held_bytes -= len(buffer)
        return larger

    def done_this_turn(self, buffer: bytearray) -> None:
        """The frame in the buffer was handled; the bytes must stay until the turn is settled."""
        self.used_this_turn.append(buffer)

    def give_back(self, buffer: bytearray) -> None:
        self.held_bytes -= len(buffer)
        if len(self._free) < LARGE_KEPT_MAX and len(buffer) <= 2 * LARGE_FIRST_BYTES:
            self._free.append(buffer)

    def reset(self) -> None:
        while self.used_this_turn:
            self.give_back(self.used_this_turn.pop())

    def _allocate(self, size: int) -> bytearray | None:
        if self.held_bytes + size > self.held_bytes_max:
            return None
        self.held_bytes += size
        return bytearray(size)
