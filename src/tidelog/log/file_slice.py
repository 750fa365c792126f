"""A stretch of a segment file that is sent to a consumer as it is, by sendfile.

Returned by `PartitionLog.read`, put into a Fetch response by the broker. It holds the open file, so that the bytes
stay readable when the segment is deleted meanwhile; it never reads them unless asked.
"""

from __future__ import annotations

from tidelog.env.files import File


class FileSlice:
    """`length` bytes of an open file from `position` on; `end_offset` is that of the batch after them."""

    __slots__ = ("end_offset", "file", "length", "position")

    def __init__(self, file: File, position: int, length: int, end_offset: int = -1) -> None:
        self.file = file
        self.position = position
        self.length = length
        self.end_offset = end_offset

    def __len__(self) -> int:
        return self.length

    def __repr__(self) -> str:
        return f"FileSlice({self.file.path!r}, position={self.position}, length={self.length})"

    @property
    def fileno(self) -> int:
        return self.file.fileno()

    def read(self) -> bytes:
        return self.file.read(self.length, self.position)
