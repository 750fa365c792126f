"""Outgoing connections as a port: frames to another node and back, timers, and the real one over non-blocking sockets.

Called by `broker/peers.py`, which knows what the frames mean. A simulation replaces `Dialer` and `Timers`. Nothing here
waits, and no user is called from inside a call of its own.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable
from concurrent.futures import Executor
from struct import Struct
from typing import Final, Protocol

LENGTH: Final = Struct(">i")
# What one read of the socket asks for while small frames come; a larger frame is read straight into its own memory.
READ_BYTES: Final = 64 * 1024


class Timer(Protocol):
    def cancel(self) -> object: ...


class Timers(Protocol):
    """The part of an event loop that waits."""

    def time(self) -> float:
        """Seconds since some point in the past."""
        ...

    def call_later(self, delay: float, callback: Callable[[], object]) -> Timer: ...

    def call_soon(self, callback: Callable[[], object]) -> object: ...


class Poller(Timers, Protocol):
    """An event loop, as far as sockets need it."""

    def add_reader(self, fd: int, callback: Callable[[], object]) -> object: ...
    def remove_reader(self, fd: int) -> bool: ...
    def add_writer(self, fd: int, callback: Callable[[], object]) -> object: ...
    def remove_writer(self, fd: int) -> bool: ...
    def call_soon_threadsafe(self, callback: Callable[[], object]) -> object: ...


class StreamUser(Protocol):
    """Whom a stream tells what happens to it. After `on_closed` nothing more comes."""

    def on_open(self) -> None: ...

    def on_frame(self, frame: memoryview) -> None:
        """A whole frame without its length. The memory is the user's for as long as it holds it."""
        ...

    def on_closed(self, reason: str, refused: bool) -> None:
        """`refused`: the other machine answered that nobody is there, or whoever was there hung up."""
        ...


class Stream(Protocol):
    """One outgoing connection."""

    def send(self, frame: bytes) -> None:
        """A whole frame with its length; only after `on_open`. Frames arrive in this order or not at all."""
        ...

    def close(self) -> None:
        """Let go. The user is not told."""
        ...


class Dialer(Protocol):
    """Makes connections."""

    def connect(self, host: str, port: int, user: StreamUser, frame_bytes_max: int) -> Stream: ...


class SocketDialer:
    """Connections by TCP. Names are looked up in a thread; addresses are not."""

    def __init__(self, poller: Poller, executor: Executor) -> None:
        self._poller = poller
        self._executor = executor

    def connect(self, host: str, port: int, user: StreamUser, frame_bytes_max: int) -> Stream:
        return SocketStream(host, port, self._poller, self._executor, user, frame_bytes_max)


class SocketStream:
    """One TCP connection, from the look-up of the name on."""

    def __init__(
        self, host: str, port: int, poller: Poller, executor: Executor, user: StreamUser, frame_bytes_max: int
    ) -> None:
        self._poller = poller
        self._user = user
        self._frame_bytes_max = frame_bytes_max
        self._socket: socket.socket | None = None
        self._closed = False
        self._writing = False
        self._unsent = bytearray()
        self._scratch = bytearray(READ_BYTES)
        # The front of a frame whose rest has not come, and the memory of one that is larger than a read.
        self._begun = b""
        self._body: bytearray | None = None
        self._filled = 0
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
            poller.call_soon(lambda: self._dial(found[0]))
        except socket.gaierror:
            executor.submit(self._look_up, host, port)

    def _look_up(self, host: str, port: int) -> None:
        """In a thread."""
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            # Listeners of this project listen on IPv4 unless told otherwise.
            best = next((entry for entry in found if entry[0] == socket.AF_INET), found[0])
            self._poller.call_soon_threadsafe(lambda: self._dial(best))
        except OSError as error:
            reason = f"cannot find {host}: {error.strerror}"
            self._poller.call_soon_threadsafe(lambda: self._fail(reason))

    def _dial(self, found: tuple[socket.AddressFamily, socket.SocketKind, int, str, object]) -> None:
        if self._closed:
            return
        family, kind, protocol, _, address = found
        try:
            made = self._socket = socket.socket(family, kind, protocol)
            made.setblocking(False)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            outcome = made.connect_ex(address)  # type: ignore[arg-type]
        except OSError as error:
            self._fail(f"cannot connect: {error.strerror}")
            return
        if outcome not in (0, errno.EINPROGRESS):
            self._fail(f"cannot connect: {errno.errorcode.get(outcome, str(outcome))}", outcome == errno.ECONNREFUSED)
            return
        self._writing = True
        self._poller.add_writer(made.fileno(), self._on_connected)

    def _on_connected(self) -> None:
        made = self._socket
        assert made is not None
        self._writing = False
        self._poller.remove_writer(made.fileno())
        outcome = made.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if outcome:
            self._fail(f"cannot connect: {errno.errorcode.get(outcome, str(outcome))}", outcome == errno.ECONNREFUSED)
            return
        self._poller.add_reader(made.fileno(), self._on_readable)
        self._user.on_open()

    # Sending

    def send(self, frame: bytes) -> None:
        made = self._socket
        assert made is not None, "sent before it was open"
        if self._closed:
            return
        if self._unsent:
            self._unsent += frame
            return
        try:
            sent = made.send(frame)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError as error:
            reason = f"send failed: {error.strerror}"
            self._poller.call_soon(lambda: self._fail(reason))
            return
        if sent < len(frame):
            self._unsent += memoryview(frame)[sent:]
            self._writing = True
            self._poller.add_writer(made.fileno(), self._on_writable)

    def _on_writable(self) -> None:
        made = self._socket
        assert made is not None
        try:
            sent = made.send(self._unsent)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._fail(f"send failed: {error.strerror}")
            return
        del self._unsent[:sent]
        if not self._unsent:
            self._writing = False
            self._poller.remove_writer(made.fileno())

    # Receiving

    def _on_readable(self) -> None:
        made = self._socket
        assert made is not None
        body = self._body
        try:
            if body is not None:
                with memoryview(body) as whole, whole[self._filled :] as room:
                    count = made.recv_into(room)
            else:
                count = made.recv_into(self._scratch)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._fail(f"receive failed: {error.strerror}", error.errno == errno.ECONNRESET)
            return
        if not count:
            self._fail("the peer closed the connection", refused=True)
        elif body is None:
            self._split(self._begun + self._scratch[:count])
        else:
            self._filled += count
            if self._filled == len(body):
                self._body = None
                self._user.on_frame(memoryview(body))

    def _split(self, data: bytes) -> None:
        view = memoryview(data)
        position = 0
        self._begun = b""
        while len(data) - position >= LENGTH.size:
            (size,) = LENGTH.unpack_from(data, position)
            if not 0 <= size <= self._frame_bytes_max:
                self._fail(f"a frame claims {size} bytes; the limit is {self._frame_bytes_max}")
                return
            end = position + LENGTH.size + size
            if end > len(data):
                if size > READ_BYTES:
                    self._body = bytearray(size)
                    self._filled = len(data) - position - LENGTH.size
                    self._body[: self._filled] = view[position + LENGTH.size :]
                    return
                break
            self._user.on_frame(view[position + LENGTH.size : end])
            if self._closed:
                return
            position = end
        self._begun = data[position:]

    # The end

    def _fail(self, reason: str, refused: bool = False) -> None:
        if not self._closed:
            self.close()
            self._user.on_closed(reason, refused)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        made = self._socket
        if made is not None:
            if self._writing:
                self._poller.remove_writer(made.fileno())
            self._poller.remove_reader(made.fileno())
            made.close()
