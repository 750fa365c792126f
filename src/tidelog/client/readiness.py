"""Wait until sockets can be read or written. `poll` where there is one: `select` fails beyond descriptor 1023."""

from __future__ import annotations

import select
import sys
from collections.abc import Iterable
from typing import Protocol

MILLISECONDS = 1000


class Descriptor(Protocol):
    """A socket, or what holds one."""

    def fileno(self) -> int: ...


if sys.platform == "win32":

    def wait(readers: Iterable[Descriptor], writers: Iterable[Descriptor], timeout_s: float) -> tuple[bool, bool]:
        """Whether, in time, any can be read and any can be written."""
        readable, writable, _ = select.select(list(readers), list(writers), [], timeout_s)
        return bool(readable), bool(writable)

else:

    def wait(readers: Iterable[Descriptor], writers: Iterable[Descriptor], timeout_s: float) -> tuple[bool, bool]:
        """Whether, in time, any can be read and any can be written. A connection that broke counts as readable."""
        events: dict[int, int] = {}
        for reader in readers:
            events[reader.fileno()] = select.POLLIN
        for writer in writers:
            events[writer.fileno()] = events.get(writer.fileno(), 0) | select.POLLOUT
        polling = select.poll()
        for descriptor, wanted in events.items():
            polling.register(descriptor, wanted)
        happened = polling.poll(timeout_s * MILLISECONDS)
        readable = any(event & ~select.POLLOUT for _, event in happened)
        writable = any(event & select.POLLOUT for _, event in happened)
        return readable, writable
