"""Where the bytes of a connection land: a long answer goes straight into a buffer of its own, without a copy.

Used by the asyncio connection, which asks for a place before each read. What is given out is never written again.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from tidelog.wire.primitives import MalformedMessage

LENGTH_BYTES: Final = 4
# Many short answers fit into one of these.
SHORT_BUFFER_BYTES: Final = 64 * 1024
# When less than this is free a new buffer is begun.
ROOM_BYTES_MIN: Final = 4 * 1024

_LENGTH: Final = Struct(">i")


class Landing:
    """Cuts what a connection receives into frames, without their lengths."""

    def __init__(self, frame_bytes_max: int) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._buffer = bytearray(SHORT_BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        # Received bytes that belong to no frame yet lie between the two.
        self._begin = 0
        self._end = 0

    def room(self) -> memoryview:
        """Where the next bytes go; never empty."""
        needed = self._needed()
        if self._begin + needed > len(self._buffer) or len(self._buffer) - self._end < min(needed, ROOM_BYTES_MIN):
            self._move(needed)
        return self._view[self._end :]

    def received(self, count: int) -> list[memoryview]:
        """This many bytes were put there; the frames that are now whole. MalformedMessage for an impossible length."""
        self._end += count
        frames: list[memoryview] = []
        while self._end - self._begin >= LENGTH_BYTES:
            length = self._length()
            end = self._begin + LENGTH_BYTES + length
            if end > self._end:
                break
            frames.append(self._view[self._begin + LENGTH_BYTES : end])
            self._begin = end
        return frames

    def _needed(self) -> int:
        """How long the frame at the beginning is, as far as that is known."""
        if self._end - self._begin < LENGTH_BYTES:
            return LENGTH_BYTES
        return LENGTH_BYTES + self._length()

    def _length(self) -> int:
        (length,) = _LENGTH.unpack_from(self._buffer, self._begin)
        if not 0 <= length <= self._frame_bytes_max:
            raise MalformedMessage(f"a frame claims {length} bytes; the limit is {self._frame_bytes_max}")
        return int(length)

    def _move(self, needed: int) -> None:
        """Go on in a new buffer: frames that were given out hold on to the old one."""
        rest = self._view[self._begin : self._end]
        self._buffer = bytearray(max(SHORT_BUFFER_BYTES, needed))
        self._view = memoryview(self._buffer)
        self._view[: len(rest)] = rest
        self._begin, self._end = 0, len(rest)
