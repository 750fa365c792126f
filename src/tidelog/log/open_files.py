"""A bound on how many segment files are open at once, however many partitions there are.

Shared by all logs of a broker. A segment that was used since the hand last came by gets a second chance; the others
let go of their file and open it again when needed. A reader in flight keeps its own reference, so nothing is closed
under it.
"""

from __future__ import annotations

from collections import deque
from threading import Lock
from typing import Final, Protocol

from tidelog.env.files import File, Files

# Unless the process may have more (`broker/ports.py`): below the usual limit of 1,024 descriptors, for sockets, too.
OPEN_FILES_MAX: Final = 512


class Holder(Protocol):
    """Something that keeps a file open between uses and can do without."""

    file: File | None
    used: bool


class OpenFiles:
    """Opens files for holders and takes them away again when there are too many."""

    __slots__ = ("_holders", "_lock", "files", "limit")

    def __init__(self, files: Files, limit: int = OPEN_FILES_MAX) -> None:
        assert limit > 0
        self.files = files
        self.limit = limit
        self._holders: deque[Holder] = deque()
        # Syncs open files in threads.
        self._lock = Lock()

    def __len__(self) -> int:
        return sum(holder.file is not None for holder in self._holders)

    def open(self, holder: Holder, path: str, *, create: bool = False) -> File:
        """Open the holder's file, and close that of another when the limit is reached."""
        assert holder.file is None
        with self._lock:
            while len(self._holders) >= self.limit:
                self._take_one_away()
        file = holder.file = self.files.open(path, create=create)
        holder.used = True
        with self._lock:
            self._holders.append(holder)
        return file

    def close(self, holder: Holder) -> None:
        """The holder needs its file no more."""
        with self._lock:
            if holder.file is not None:
                holder.file = None
                self._holders.remove(holder)

    def _take_one_away(self) -> None:
        holder = self._holders.popleft()
        if holder.used:
            holder.used = False
            self._holders.append(holder)
        else:
            # Only the reference goes: the file closes when the last reader in flight is done with it.
            holder.file = None
