"""What a broker needs of the machine it runs on: clock, disk, threads, connections to and from others, chance.

Made by whoever starts a `BrokerNode`, handed on by `assembly.py`; a simulation gives its own.
"""

from __future__ import annotations

import secrets
import socket
import sys
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, Protocol
from uuid import UUID, uuid4

from tidelog.broker.listener import Listener, bind
from tidelog.env.clock import Clock, RealClock
from tidelog.env.files import Files, RealFiles
from tidelog.env.network import Dialer, Poller, SocketDialer
from tidelog.log.open_files import OPEN_FILES_MAX

THREADS: Final = 4
CLOSE_THREADS: Final = 16
# One in so many of the descriptors of a process is for segments, but not more than that.
OPEN_FILES_SHARE: Final = 4
OPEN_FILES_LIMIT: Final = 16_384


class Entropy(Protocol):
    """Chance."""

    def uuid(self) -> UUID: ...

    def below(self, limit: int) -> int:
        """A number from 0 to `limit` - 1."""
        ...


class SystemEntropy:
    """Ids and numbers that nobody can guess or repeat."""

    def uuid(self) -> UUID:
        return uuid4()

    def below(self, limit: int) -> int:
        return secrets.randbelow(limit)


@dataclass(frozen=True, slots=True)
class Ports:
    clock: Clock
    files: Files
    executor: Executor
    dialer: Dialer
    entropy: Entropy
    # Where others connect to: an address is bound, then served.
    bind: Callable[[str, int], socket.socket] = bind
    listen: type[Listener] = Listener
    # So many logs are closed at a time; one where a simulated disk must see the same order in every run.
    close_threads: int = 1
    # So many segments keep their file open.
    open_files_max: int = OPEN_FILES_MAX


def real_ports(loop: Poller) -> Ports:
    """The machine's own."""
    executor = ThreadPoolExecutor(THREADS, thread_name_prefix="tidelog-disk")
    return Ports(
        RealClock(),
        RealFiles(),
        executor,
        SocketDialer(loop, executor),
        SystemEntropy(),
        close_threads=CLOSE_THREADS,
        open_files_max=_open_files_max(),
    )


def _open_files_max() -> int:
    """A share of the descriptors that this process may have: sockets need the rest. A file for every partition that is
    written to saves opening it again for each write."""
    if sys.platform == "win32":
        return OPEN_FILES_MAX
    import resource

    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY:
        return OPEN_FILES_LIMIT
    return min(max(allowed // OPEN_FILES_SHARE, OPEN_FILES_MAX), OPEN_FILES_LIMIT)
