"""A disk in memory that can lose power, fill up and fail, the same way each time for the same seed.

For tests of the log. It keeps apart what was synced and what only the page cache knows: after `crash` a file has what
was synced, plus some, torn parts or none of what was written since; names that were not synced are lost from the newest
on, as with a journalling file system. It never touches the real disk.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from random import Random
from typing import Final, NamedTuple

from tidelog.env.files import Bytes, DirectoryEntry

# The piece of a write that reaches the disk as a whole or not at all.
SECTOR_BYTES: Final = 512


class SimulatedCrash(BaseException):
    """The power went off in the middle of an operation. Not an Exception: nothing may handle it and go on."""


class _Change(NamedTuple):
    """A write (or, with data None, a truncation) that is not synced yet."""

    position: int
    data: bytes | None


class _Node:
    """A file's content, as programs see it and as the disk holds it."""

    __slots__ = ("changes", "content", "durable", "modified_ms")

    def __init__(self) -> None:
        self.content = bytearray()
        self.durable = b""
        self.changes: list[_Change] = []
        self.modified_ms = 0

    def apply(self, change: _Change) -> None:
        _apply(self.content, change)
        self.changes.append(change)

    def sync(self) -> None:
        self.durable = bytes(self.content)
        self.changes.clear()


def _apply(content: bytearray, change: _Change) -> None:
    if change.data is None:
        del content[change.position :]
        content.extend(bytes(change.position - len(content)))
        return
    content.extend(bytes(max(change.position - len(content), 0)))
    content[change.position : change.position + len(change.data)] = change.data


class _Rename(NamedTuple):
    """A change of names that is not synced yet: None as source is a creation, as target a removal."""

    source: str | None
    target: str | None
    node: _Node | None


class SimulatedFile:
    """An open file of the simulated disk. Useless after a crash."""

    __slots__ = ("_disk", "_node", "_power", "path")

    def __init__(self, disk: SimulatedFiles, path: str, node: _Node) -> None:
        self._disk = disk
        self._node = node
        self._power = disk.crashes
        self.path = path

    def fileno(self) -> int:
        raise OSError(errno.EBADF, "a simulated file has no descriptor", self.path)

    def _alive(self) -> _Node:
        if self._power != self._disk.crashes:
            raise OSError(errno.EBADF, "opened before the crash", self.path)
        return self._node

    def size(self) -> int:
        return len(self._alive().content)

    def write(self, buffers: Sequence[Bytes], position: int) -> None:
        node = self._alive()
        data = b"".join(buffers)
        self._disk.before("write", self.path, lambda written: node.apply(_Change(position, data[:written])), len(data))
        room = self._disk.room_for(position + len(data) - len(node.content))
        if room is not None:
            node.apply(_Change(position, data[: max(len(data) - room, 0)]))
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)
        node.apply(_Change(position, data))

    def read(self, length: int, position: int) -> bytes:
        return bytes(self._alive().content[position : position + length])

    def truncate(self, size: int) -> None:
        node = self._alive()
        self._disk.before("truncate", self.path)
        node.apply(_Change(size, None))

    def sync(self) -> None:
        node = self._alive()
        self._disk.before("sync", self.path)
        node.sync()

    def close(self) -> None:
        """Nothing to give back."""


class _SimulatedLock(SimulatedFile):
    __slots__ = ()

    def close(self) -> None:
        self._disk.locked.discard(self.path)


class SimulatedFiles:
    """A file system in memory. `operations` counts what changes the disk; each can be made to fail or be the last."""

    def __init__(self, seed: int = 0, *, capacity_bytes: int | None = None) -> None:
        self._random = Random(seed)
        self.capacity_bytes = capacity_bytes
        self.operations = 0
        self.crashes = 0
        self.locked: set[str] = set()
        # Operation number to the errno it fails with.
        self.failures: dict[int, int] = {}
        # Operation number at which the power goes.
        self.crash_at: int | None = None
        # When set, every operation on a path that starts with it fails with EIO: a disk that died.
        self.dead_path: str | None = None
        self._files: dict[str, _Node] = {}
        self._directories: set[str] = {"/"}
        self._durable_files: dict[str, _Node] = {}
        self._durable_directories: set[str] = {"/"}
        self._renames: list[_Rename] = []

    # --- what tests do to it ------------------------------------------------------------------------------------------

    def crash(self) -> None:
        """Lose power: forget what was not synced, in part or as a whole, and let the machine start again."""
        self.crashes += 1
        self.crash_at = None
        self.failures.clear()
        self.locked.clear()
        for rename in self._renames[: self._random.randint(0, len(self._renames))]:
            self._apply_rename(self._durable_files, self._durable_directories, rename)
        self._renames.clear()
        self._files = dict(self._durable_files)
        self._directories = set(self._durable_directories)
        for node in self._files.values():
            self._crash_node(node)

    def _crash_node(self, node: _Node) -> None:
        content = bytearray(node.durable)
        # Sometimes the cache got out in order up to a point, sometimes pieces of it in any order, sometimes nothing.
        fate = self._random.random()
        changes = node.changes
        if fate < 0.25:
            changes = []
        elif fate < 0.6:
            changes = changes[: self._random.randint(0, len(changes))]
        else:
            changes = [change for change in changes if self._random.random() < 0.7]
        for number, change in enumerate(changes):
            last = number == len(changes) - 1
            if change.data is not None and (last or fate > 0.8) and self._random.random() < 0.5:
                self._tear(content, change)
            else:
                _apply(content, change)
        node.content = content
        node.sync()

    def _tear(self, content: bytearray, change: _Change) -> None:
        """Some sectors of a write get to the disk, the file has its new length all the same."""
        assert change.data is not None
        if self._random.random() < 0.5:
            _apply(content, _Change(change.position, change.data[: self._random.randint(0, len(change.data))]))
            return
        content.extend(bytes(max(change.position + len(change.data) - len(content), 0)))
        for start in range(0, len(change.data), SECTOR_BYTES):
            if self._random.random() < 0.5:
                sector = change.data[start : start + SECTOR_BYTES]
                content[change.position + start : change.position + start + len(sector)] = sector

    def before(
        self, operation: str, path: str, write_part: Callable[[int], None] | None = None, length: int = 0
    ) -> None:
        """Count an operation; fail, or lose power in the middle of it, when that was asked for."""
        self.operations += 1
        number = self.operations
        if self.dead_path is not None and path.startswith(self.dead_path):
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        failure = self.failures.pop(number, None)
        if failure is None and self.crash_at != number:
            return
        if write_part is not None:
            write_part(self._random.randint(0, length))
        if failure is not None:
            raise OSError(failure, f"{operation} was made to fail", path)
        raise SimulatedCrash(f"{operation} of {path}")

    def room_for(self, growth: int) -> int | None:
        """How many of `growth` bytes do not fit; None when all do."""
        if self.capacity_bytes is None or growth <= 0:
            return None
        missing = growth - self.free_bytes("/")
        return missing if missing > 0 else None

    # --- the file system ----------------------------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False) -> SimulatedFile:
        self._check_alive(path)
        node = self._files.get(path)
        if node is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            self._require_directory(path.rpartition("/")[0])
            self.before("create", path)
            node = _Node()
            self._rename(_Rename(None, path, node))
        return SimulatedFile(self, path, node)

    def rename(self, source: str, target: str) -> None:
        if source not in self._files and source not in self._directories:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), source)
        self.before("rename", source)
        self._rename(_Rename(source, target, self._files.get(source)))

    def remove(self, path: str) -> None:
        if path not in self._files:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        self.before("remove", path)
        self._rename(_Rename(path, None, self._files[path]))

    def make_directory(self, path: str) -> None:
        self._check_alive(path)
        parts = path.strip("/").split("/")
        for number in range(len(parts)):
            parent = "/" + "/".join(parts[: number + 1])
            if parent not in self._directories:
                self.before("mkdir", parent)
                self._rename(_Rename(None, parent, None))

    def remove_directory(self, path: str) -> None:
        if self.list(path):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        self.before("rmdir", path)
        self._rename(_Rename(path, None, None))

    def _rename(self, rename: _Rename) -> None:
        self._apply_rename(self._files, self._directories, rename)
        self._renames.append(rename)

    @staticmethod
    def _apply_rename(files: dict[str, _Node], directories: set[str], rename: _Rename) -> None:
        source, target, node = rename
        if node is not None:
            if source is not None:
                files.pop(source, None)
            if target is not None:
                files[target] = node
        elif source is None:
            assert target is not None
            directories.add(target)
        elif target is None:
            directories.discard(source)
        else:
            for path in [path for path in directories if path == source or path.startswith(source + "/")]:
                directories.discard(path)
                directories.add(target + path[len(source) :])
            for path in [path for path in files if path.startswith(source + "/")]:
                files[target + path[len(source) :]] = files.pop(path)

    def list(self, path: str) -> list[DirectoryEntry]:
        self._check_alive(path)
        self._require_directory(path)
        prefix = path.rstrip("/") + "/"
        names = {
            name.removeprefix(prefix): name in self._directories
            for name in [*self._files, *self._directories]
            if name.startswith(prefix) and "/" not in name.removeprefix(prefix) and name != prefix
        }
        # In an order of its own, so that a simulation is the same each time.
        return [DirectoryEntry(name, is_directory) for name, is_directory in sorted(names.items()) if name]

    def sync_directory(self, path: str) -> None:
        """Makes all changes of names durable up to the last one in this directory: a journal is written in order."""
        self._require_directory(path)
        self.before("sync directory", path)
        last = -1
        for number, rename in enumerate(self._renames):
            names = [name for name in (rename.source, rename.target) if name is not None]
            if any((name.rpartition("/")[0] or "/") == path for name in names):
                last = number
        for rename in self._renames[: last + 1]:
            self._apply_rename(self._durable_files, self._durable_directories, rename)
        del self._renames[: last + 1]

    def lock(self, path: str) -> SimulatedFile:
        if path in self.locked:
            raise BlockingIOError(errno.EAGAIN, "another broker uses this directory", path)
        file = self.open(path, create=True)
        self.locked.add(path)
        return _SimulatedLock(self, path, file._alive())

    def exists(self, path: str) -> bool:
        return path in self._files or path in self._directories

    def size(self, path: str) -> int:
        self._check_alive(path)
        node = self._files.get(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return len(node.content)

    def modified_ms(self, path: str) -> int:
        return self._files[path].modified_ms

    @property
    def used_bytes(self) -> int:
        return sum(len(node.content) for node in set(self._files.values()))

    def free_bytes(self, path: str) -> int:
        return 1 << 50 if self.capacity_bytes is None else self.capacity_bytes - self.used_bytes

    def total_bytes(self, path: str) -> int:
        return 1 << 50 if self.capacity_bytes is None else self.capacity_bytes

    def _require_directory(self, path: str) -> None:
        if path not in self._directories and path != "":
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    def _check_alive(self, path: str) -> None:
        if self.dead_path is not None and path.startswith(self.dead_path):
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
