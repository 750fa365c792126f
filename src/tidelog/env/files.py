"""Files as a port: what the log asks of a disk, and the real one.

Called by `log/` for every byte it keeps. Paths are plain strings. What the machine refuses is raised as OSError;
nothing is retried and nothing is hidden here. The simulated disk is in `env/simulated_files.py`.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple, Protocol

Bytes = bytes | bytearray | memoryview

# One gathered write takes at most this many buffers (Linux: 1024).
GATHERED_BUFFERS_MAX: Final = os.sysconf("SC_IOV_MAX") if "SC_IOV_MAX" in os.sysconf_names else 16


# fdatasync skips the metadata that readers do not need; not every system has it.
_sync_data: Final = getattr(os, "fdatasync", os.fsync)


class DirectoryEntry(NamedTuple):
    """One name in a directory."""

    name: str
    is_directory: bool


class File(Protocol):
    """An open file. It stays readable for as long as somebody holds it, even when it has been renamed or removed."""

    @property
    def path(self) -> str:
        """Where it was when it was opened."""
        ...

    def fileno(self) -> int:
        """The descriptor, for sendfile."""
        ...

    def size(self) -> int: ...

    def write(self, buffers: Sequence[Bytes], position: int) -> None:
        """Write all buffers one after the other from `position` on; raises OSError when a part could not be written."""
        ...

    def read(self, length: int, position: int) -> bytes:
        """Up to `length` bytes; fewer only at the end of the file."""
        ...

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """Return when the content is on the disk (fdatasync)."""
        ...

    def close(self) -> None: ...


class Files(Protocol):
    """A file system."""

    def open(self, path: str, *, create: bool = False) -> File: ...

    def rename(self, source: str, target: str) -> None:
        """Replaces `target` in one step."""
        ...

    def remove(self, path: str) -> None: ...

    def make_directory(self, path: str) -> None:
        """Makes missing parents too; an existing directory is left alone."""
        ...

    def remove_directory(self, path: str) -> None:
        """Only an empty one."""
        ...

    def list(self, path: str) -> list[DirectoryEntry]: ...

    def sync_directory(self, path: str) -> None:
        """Return when the names in it are on the disk: created, renamed and removed files."""
        ...

    def lock(self, path: str) -> File:
        """Hold a file that nobody else may hold until it is closed; raises BlockingIOError when somebody does."""
        ...

    def exists(self, path: str) -> bool: ...

    def size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int: ...

    def free_bytes(self, path: str) -> int:
        """Room left on the file system that holds `path`."""
        ...

    def total_bytes(self, path: str) -> int: ...


def read_all(files: Files, path: str) -> bytes:
    """The whole content of a small file."""
    file = files.open(path)
    try:
        return file.read(file.size(), 0)
    finally:
        file.close()


class RealFile:
    """A descriptor that closes itself when the last holder lets go, so that a reader in flight outlives its segment."""

    __slots__ = ("_descriptor", "path")

    def __init__(self, descriptor: int, path: str) -> None:
        self._descriptor = descriptor
        self.path = path

    def fileno(self) -> int:
        return self._descriptor

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def write(self, buffers: Sequence[Bytes], position: int) -> None:
        descriptor = self._descriptor
        count = len(buffers)
        if count == 1:
            buffer = buffers[0]
            written = os.pwrite(descriptor, buffer, position)
            if written != len(buffer):
                self._write_rest([buffer], written, position)
            return
        start = 0
        while start < count:
            chunk = (
                buffers if count <= GATHERED_BUFFERS_MAX else list(islice(buffers, start, start + GATHERED_BUFFERS_MAX))
            )
            written = os.pwritev(descriptor, chunk, position)
            length = sum(map(len, chunk))
            if written != length:
                self._write_rest(chunk, written, position)
            position += length
            start += len(chunk)

    def _write_rest(self, buffers: Sequence[Bytes], written: int, position: int) -> None:
        """A signal or a nearly full disk can cut a write short: go on, until all is written or the reason is raised."""
        rest = memoryview(b"".join(buffers))
        while written < len(rest):
            step = os.pwrite(self._descriptor, rest[written:], position + written)
            if step == 0:
                raise OSError(errno.EIO, "a write made no progress", self.path)
            written += step

    def read(self, length: int, position: int) -> bytes:
        data = os.pread(self._descriptor, length, position)
        if len(data) == length or not data:
            return data
        pieces = [data]
        missing = length - len(data)
        while missing:
            data = os.pread(self._descriptor, missing, position + length - missing)
            if not data:
                break
            pieces.append(data)
            missing -= len(data)
        return b"".join(pieces)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def sync(self) -> None:
        _sync_data(self._descriptor)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        # A destructor has nobody to tell: what had to be durable was synced, and said so, before.
        with contextlib.suppress(OSError):
            self.close()


# A lock on a file is shared within a process, so two brokers in one process are told apart here.
_locked_paths: set[str] = set()


class RealLock(RealFile):
    """A locked file. A process that dies lets go of it."""

    __slots__ = ()

    def close(self) -> None:
        if self._descriptor >= 0:
            _locked_paths.discard(self.path)
        super().close()


class RealFiles:
    """The machine's file system."""

    __slots__ = ()

    def open(self, path: str, *, create: bool = False) -> RealFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return RealFile(os.open(path, flags, 0o644), path)

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)  # noqa: PTH105 - a Path object for every rename buys nothing here.

    def remove(self, path: str) -> None:
        os.unlink(path)  # noqa: PTH108

    def make_directory(self, path: str) -> None:
        Path(path).mkdir(parents=True, exist_ok=True)

    def remove_directory(self, path: str) -> None:
        os.rmdir(path)  # noqa: PTH106

    def list(self, path: str) -> list[DirectoryEntry]:
        with os.scandir(path) as entries:
            return [DirectoryEntry(entry.name, entry.is_dir()) for entry in entries]

    def sync_directory(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def lock(self, path: str) -> RealFile:
        path = str(Path(path).resolve())
        if path in _locked_paths:
            raise BlockingIOError(errno.EAGAIN, "another broker in this process uses this directory", path)
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_CREAT, 0o644)
        try:
            # The kind of lock that Apache Kafka's broker takes, so that the two respect each other.
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise BlockingIOError(errno.EAGAIN, "another process uses this directory", path) from None
        _locked_paths.add(path)
        return RealLock(descriptor, path)

    def exists(self, path: str) -> bool:
        return Path(path).exists()

    def size(self, path: str) -> int:
        return os.stat(path).st_size  # noqa: PTH116

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000  # noqa: PTH116

    def free_bytes(self, path: str) -> int:
        status = os.statvfs(path)
        return status.f_bavail * status.f_frsize

    def total_bytes(self, path: str) -> int:
        status = os.statvfs(path)
        return status.f_blocks * status.f_frsize


class ReadOnlyFiles(RealFiles):
    """The same for who looks into another's files, and may not be allowed to write them."""

    __slots__ = ()

    def open(self, path: str, *, create: bool = False) -> RealFile:
        assert not create
        return RealFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC), path)
