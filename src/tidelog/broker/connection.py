"""One client's connection: bytes in, frames to the dispatcher, answers out in the order of the requests.

It reads the socket itself from the loop's reader callback and sends files with sendfile. It knows nothing of what
requests mean.
"""

from __future__ import annotations

import errno
import os
import socket
from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import Final, Protocol

from tidelog.broker.call import Call
from tidelog.broker.turn import Turn
from tidelog.log.file_slice import FileSlice
from tidelog.wire.compiler import Output

FRAME_SIZE: Final = Struct(">i")
# Linux only; elsewhere the header of a fetch answer may leave as a packet of its own.
MORE_FOLLOWS: Final = getattr(socket, "MSG_MORE", 0)
# Unfinished frames up to this size are carried to the front of the next read; larger ones get a buffer of their own.
CARRIED_BYTES_MAX: Final = 32 * 1024
# A client that does not read its answers is not read from, nor are more of its requests handled, beyond these.
ANSWERS_QUEUED_BYTES_MAX: Final = 1024 * 1024
CALLS_WAITING_MAX: Final = 1000
# How much one connection may send before the others get their turn.
SEND_QUANTUM_BYTES: Final = 4 * 1024 * 1024
# File ranges up to this size are cheaper to read into the answer than to send with a system call of their own.
INLINED_FILE_BYTES_MAX: Final = 8 * 1024


class Poller(Protocol):
    """The part of an event loop that a connection uses."""

    def add_reader(self, fd: int, callback: Callable[[], object]) -> object: ...
    def remove_reader(self, fd: int) -> bool: ...
    def add_writer(self, fd: int, callback: Callable[[], object]) -> object: ...
    def remove_writer(self, fd: int) -> bool: ...


class ReadsRuns(Protocol):
    """How requests of one API are read that repeat what the connection has sent before."""

    @property
    def api_key(self) -> int: ...


class HandlesRequests(Protocol):
    """Where requests go: `broker/dispatch.py`."""

    def handle_frame(self, connection: Connection, frame: memoryview) -> Call | None:
        """Handle one request, without its length."""
        ...

    def handle_run(
        self, connection: Connection, reader: ReadsRuns, view: memoryview, position: int, end: int
    ) -> tuple[Call, int] | None:
        """Handle requests together that are alike, if there are such, and say where they end."""
        ...


class Connection:
    __slots__ = (
        "_backlog",
        "_body",
        "_body_bytes",
        "_calls",
        "_calls_max",
        "_carried",
        "_fd",
        "_filled",
        "_flush_scheduled",
        "_frame_bytes_max",
        "_mutes",
        "_on_close",
        "_out",
        "_out_bytes",
        "_poller",
        "_reading",
        "_recv_into",
        "_requests",
        "_socket",
        "_turn",
        "_writing",
        "active_at",
        "closed",
        "listener_name",
        "peer_host",
        "received_bytes",
        "run_reader",
        "seen_bytes",
        "sent_bytes",
    )

    def __init__(
        self,
        sock: socket.socket,
        peer_host: str,
        listener_name: str,
        poller: Poller,
        turn: Turn,
        requests: HandlesRequests,
        frame_bytes_max: int,
        on_close: Callable[[Connection, str], None],
    ) -> None:
        self._socket = sock
        self._fd = sock.fileno()
        self._recv_into = sock.recv_into
        self._poller = poller
        self._turn = turn
        self._requests = requests
        self._frame_bytes_max = frame_bytes_max
        self._on_close = on_close
        self._carried = b""
        self._body: bytearray | None = None
        self._body_bytes = 0
        self._filled = 0
        self._backlog: memoryview | None = None
        self._calls: deque[Call] = deque()
        # 0 while the client is muted: nothing more of it is handled.
        self._calls_max = CALLS_WAITING_MAX
        self._mutes = 0
        self._out: deque[bytes | bytearray | memoryview | FileSlice] = deque()
        self._out_bytes = 0
        self._flush_scheduled = False
        self._reading = True
        self._writing = False
        self.peer_host = peer_host
        self.listener_name = listener_name
        self.closed = False
        # How the requests of a client that repeats itself are read.
        self.run_reader: ReadsRuns | None = None
        self.active_at = 0.0
        self.received_bytes = 0
        self.sent_bytes = 0
        self.seen_bytes = 0
        poller.add_reader(self._fd, self.on_readable)

    @property
    def has_partial_frame(self) -> bool:
        return self._body is not None

    @property
    def calls_waiting(self) -> int:
        return len(self._calls)

    @property
    def has_backlog(self) -> bool:
        """Whether requests that were read are handled once answers have left."""
        return self._backlog is not None

    # Reading

    def on_readable(self) -> None:
        turn = self._turn
        turn.begin()
        if self._body is not None:
            self._read_body()
            return
        room = turn.arena.room()
        carried = self._carried
        start = len(carried)
        if start:
            room[:start] = carried
        try:
            count = self._recv_into(room[start:] if start else room)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self.close(f"receive failed: {error.strerror}")
            return
        if not count:
            self.close("the client closed the connection")
            return
        self._carried = b""
        self.received_bytes += count
        turn.arena.take(start + count)
        self._consume(room, start + count)

    def _consume(self, view: memoryview, end: int) -> bool:
        """Handle every whole frame of view[:end] and keep what remains; False when nothing more may be read now."""
        position = 0
        unpack = FRAME_SIZE.unpack_from
        while end - position >= 4:
            (size,) = unpack(view, position)
            if size < 0 or size > self._frame_bytes_max:
                self.close(f"a frame claims {size} bytes; the limit is {self._frame_bytes_max}")
                return False
            frame_end = position + 4 + size
            if frame_end > end:
                if size + 4 > CARRIED_BYTES_MAX:
                    self._begin_body(view[position:end], size + 4)
                    return True
                break
            if self._out_bytes > ANSWERS_QUEUED_BYTES_MAX or len(self._calls) >= self._calls_max:
                # The rest waits, outside of the arena, until the client has taken its answers.
                self._backlog = memoryview(bytearray(view[position:end]))
                self._pause_reading()
                return False
            run = None
            if self.run_reader is not None:
                run = self._requests.handle_run(self, self.run_reader, view, position, end)
            if run is not None:
                call: Call | None
                call, frame_end = run
            elif not self.closed:
                call = self._requests.handle_frame(self, view[position + 4 : frame_end])
            if self.closed:
                return False
            position = frame_end
            if call is None:
                continue
            if call.output is None or self._calls:
                self._calls.append(call)
            else:
                self._queue(call.output)
        if position < end:
            self._carried = bytes(view[position:end])
        return True

    def _begin_body(self, begun: memoryview, size: int) -> None:
        body = self._turn.large_buffers.take(size)
        if body is None:
            self.close("the memory for requests in flight is used up")
            return
        self._body_bytes = size
        self._filled = len(begun)
        while len(body) < self._filled:
            grown = self._turn.large_buffers.grow(body, 0, size)
            if grown is None:
                self._turn.large_buffers.give_back(body)
                self.close("the memory for requests in flight is used up")
                return
            body = grown
        body[: self._filled] = begun
        self._body = body

    def _read_body(self) -> None:
        body = self._body
        assert body is not None
        if self._filled == len(body):
            body = self._turn.large_buffers.grow(body, self._filled, self._body_bytes)
            if body is None:
                self.close("the memory for requests in flight is used up")
                return
            self._body = body
        with memoryview(body) as whole, whole[self._filled : self._body_bytes] as room:
            try:
                count = self._recv_into(room)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                self.close(f"receive failed: {error.strerror}")
                return
        if not count:
            self.close("the client closed the connection")
            return
        self.received_bytes += count
        self._filled += count
        if self._filled == self._body_bytes:
            self._body = None
            self._turn.large_buffers.done_this_turn(body)
            self._consume(memoryview(body), self._body_bytes)

    def _pause_reading(self) -> None:
        if self._reading:
            self._reading = False
            self._poller.remove_reader(self._fd)

    def _go_on_reading(self) -> None:
        """Called when answers have left: first the requests already here, then the socket."""
        if self.closed or self._out_bytes > ANSWERS_QUEUED_BYTES_MAX or len(self._calls) >= self._calls_max:
            return
        if self._backlog is not None:
            backlog, self._backlog = self._backlog, None
            self._turn.begin()
            if not self._consume(backlog, len(backlog)):
                return
        if not self._reading and not self._mutes:
            self._reading = True
            self._poller.add_reader(self._fd, self.on_readable)

    def mute(self) -> None:
        """Read and handle nothing more until as many calls of `unmute` have come; answers go on leaving."""
        self._mutes += 1
        self._calls_max = 0
        if not self.closed:
            self._pause_reading()

    def unmute(self) -> None:
        self._mutes -= 1
        if not self._mutes:
            self._calls_max = CALLS_WAITING_MAX
            if not self._writing and not self._reading:
                self._go_on_reading()

    # Answering

    def answered(self, call: Call) -> None:
        """A call that waited has its answer: send it, and the ones behind it that were ready earlier."""
        calls = self._calls
        if self.closed or not calls or calls[0] is not call:
            return
        while calls and (output := calls[0].output) is not None:
            calls.popleft()
            self._queue(output)

    def _queue(self, output: Output) -> None:
        if output.splices:
            self._queue_spliced(output)
        elif output:
            self._out.append(output)
            self._out_bytes += len(output)
        if not self._flush_scheduled and not self._writing:
            self._flush_scheduled = True
            self._turn.flush(self)

    def _queue_spliced(self, output: Output) -> None:
        """Put the file ranges at their places between the bytes; small ones are read into them."""
        whole = memoryview(output)
        out = self._out
        pending: list[bytes | memoryview] = []
        begun = 0
        for position, piece in output.splices:
            assert isinstance(piece, FileSlice)
            pending.append(whole[begun:position])
            begun = position
            if len(piece) <= INLINED_FILE_BYTES_MAX:
                pending.append(piece.read())
                continue
            joined = b"".join(pending)
            pending.clear()
            out.append(joined)
            out.append(piece)
            self._out_bytes += len(joined)
        pending.append(whole[begun:])
        joined = b"".join(pending)
        if joined:
            out.append(joined)
            self._out_bytes += len(joined)

    def flush(self) -> None:
        self._flush_scheduled = False
        if not self.closed and not self._writing:
            self._send()

    def _on_writable(self) -> None:
        # A congested connection goes on through the turn, too, so that what it then handles is settled with the rest.
        self._turn.begin()
        self._send()

    def _send(self) -> None:
        out = self._out
        budget = SEND_QUANTUM_BYTES
        try:
            while out and budget > 0:
                head = out[0]
                if len(out) > 1 or isinstance(head, FileSlice):
                    sent = self._send_some()
                else:
                    sent = self._socket.send(head)
                    if sent < len(head):
                        out[0] = memoryview(head)[sent:]
                    else:
                        out.clear()
                    self._out_bytes -= sent
                self.sent_bytes += sent
                budget -= sent
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            self.close(f"send failed: {error.strerror}")
            return
        if out:
            if not self._writing:
                self._writing = True
                self._poller.add_writer(self._fd, self._on_writable)
                self._pause_reading()
        elif self._writing:
            self._writing = False
            self._poller.remove_writer(self._fd)
        if not out and not self._reading:
            self._go_on_reading()

    def _send_some(self) -> int:
        """One system call's worth of a file, or of several pieces; what was not taken stays at the head."""
        out = self._out
        head = out[0]
        if isinstance(head, FileSlice):
            sent = os.sendfile(self._fd, head.fileno, head.position, head.length)
            if sent == 0:
                # The file is shorter than it was when the answer was made: a promised length cannot be kept.
                raise OSError(errno.EIO, "a log file was truncated while it was being sent")
            out.popleft()
            if sent < head.length:
                out.appendleft(FileSlice(head.file, head.position + sent, head.length - sent))
            return sent
        return self._send_gathered()

    def _send_gathered(self) -> int:
        out = self._out
        buffers: list[bytes | bytearray | memoryview] = []
        flags = 0
        for piece in out:
            if isinstance(piece, FileSlice):
                # The file's bytes follow at once: do not send a small packet for the header alone.
                flags = MORE_FOLLOWS
                break
            buffers.append(piece)
        joined = b"".join(buffers) if len(buffers) > 1 else buffers[0]
        sent = self._socket.send(joined, flags)
        self._out_bytes -= sent
        if sent == len(joined) and len(buffers) == len(out):
            out.clear()
            return sent
        left = sent
        while left:
            piece = out.popleft()
            assert not isinstance(piece, FileSlice)
            if left < len(piece):
                out.appendleft(memoryview(piece)[left:])
                break
            left -= len(piece)
        return sent

    def close(self, reason: str) -> None:
        if self.closed:
            return
        self.closed = True
        if self._reading:
            self._reading = False
            self._poller.remove_reader(self._fd)
        if self._writing:
            self._writing = False
            self._poller.remove_writer(self._fd)
        if self._body is not None:
            self._turn.large_buffers.give_back(self._body)
            self._body = None
        self._socket.close()
        self._calls.clear()
        self._out.clear()
        self._backlog = None
        self._on_close(self, reason)
