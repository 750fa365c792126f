"""Many connections in one process, each kept full of requests that were encoded before: a generator that costs less
than the broker it drives.

It counts answers, by their number of bytes or by their frames, and never decodes them. Used by the generators of
produce and fetch requests.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable
from struct import Struct
from typing import Final, Protocol

from harness.server import HOST

RECEIVE_BYTES: Final = 1 << 20
SEND_BUFFER_BYTES: Final = 4 << 20
QUIET_SECONDS_MAX: Final = 30.0
# Fewer say nothing: on a machine that stalls, a window stays open until they are here.
ANSWERS_MIN: Final = 100
_LENGTH: Final = Struct(">i")


class Answers(Protocol):
    """Counts the whole answers in what has arrived."""

    def count(self, data: memoryview) -> int: ...


class AnswersOfSize:
    """All answers have the same number of bytes: counting them is a division."""

    def __init__(self, size_bytes: int) -> None:
        self._size_bytes = size_bytes
        self._left = 0

    def count(self, data: memoryview) -> int:
        whole, self._left = divmod(self._left + len(data), self._size_bytes)
        return whole


class AnswersByFrame:
    """Answers differ in size: go from length to length."""

    def __init__(self) -> None:
        self._to_skip = 0
        self._begun = b""

    def count(self, data: memoryview) -> int:
        if self._begun:
            data = memoryview(self._begun + bytes(data))
            self._begun = b""
        position = self._to_skip
        end = len(data)
        if position > end:
            self._to_skip = position - end
            return 0
        whole = 1 if position else 0
        while end - position >= 4:
            position += 4 + _LENGTH.unpack_from(data, position)[0]
            if position > end:
                self._to_skip = position - end
                return whole
            whole += 1
        self._begun = bytes(data[position:])
        self._to_skip = 0
        return whole


class Lane:
    """One connection and what it sends next."""

    __slots__ = ("answers", "outstanding", "recv_into", "requests", "socket", "unsent")

    def __init__(self, port: int, requests: Callable[[int], memoryview], answers: Answers) -> None:
        self.socket = socket.create_connection((HOST, port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        self.socket.setblocking(False)
        self.recv_into = self.socket.recv_into
        self.requests = requests
        self.answers = answers
        self.outstanding = 0
        self.unsent: memoryview | None = None


class Lanes:
    def __init__(self, lanes: list[Lane], in_flight: int) -> None:
        self._lanes = {lane.socket.fileno(): lane for lane in lanes}
        self._in_flight = in_flight
        self._poll = select.epoll()
        self._buffer = memoryview(bytearray(RECEIVE_BYTES))
        for fd in self._lanes:
            self._poll.register(fd, select.EPOLLIN)

    def start(self) -> None:
        """Fill every connection."""
        for fd, lane in self._lanes.items():
            self._send(fd, lane, self._in_flight)

    def pump(self, seconds: float) -> int:
        """Send a request for every answer, for a while; returns how many answers came."""
        answered = 0
        now = time.perf_counter
        end = now() + seconds
        latest = end + QUIET_SECONDS_MAX
        while now() < end or (answered < ANSWERS_MIN and now() < latest):
            answered += self._step(refill=True)
        return answered

    def drain(self) -> int:
        """Wait for the answers that are still due, sending nothing new."""
        answered = 0
        deadline = time.perf_counter() + QUIET_SECONDS_MAX
        while any(lane.outstanding for lane in self._lanes.values()):
            if time.perf_counter() > deadline:
                raise TimeoutError("the broker owes answers")
            answered += self._step(refill=False)
        return answered

    def _step(self, refill: bool) -> int:
        answered = 0
        buffer = self._buffer
        for fd, event in self._poll.poll(1):
            lane = self._lanes[fd]
            if event & select.EPOLLOUT:
                self._send_rest(fd, lane)
            if not event & select.EPOLLIN:
                continue
            count = lane.recv_into(buffer)
            if not count:
                raise ConnectionError("the broker closed a connection")
            whole = lane.answers.count(buffer[:count])
            if whole:
                answered += whole
                lane.outstanding -= whole
                if refill:
                    self._send(fd, lane, whole)
        return answered

    def close(self) -> None:
        for lane in self._lanes.values():
            lane.socket.close()
        self._poll.close()

    def _send(self, fd: int, lane: Lane, count: int) -> None:
        lane.outstanding += count
        requests = lane.requests(count)
        if lane.unsent is not None:
            lane.unsent = memoryview(bytes(lane.unsent) + bytes(requests))
            return
        try:
            sent = lane.socket.send(requests)
        except BlockingIOError:
            sent = 0
        if sent < len(requests):
            lane.unsent = requests[sent:]
            self._poll.modify(fd, select.EPOLLOUT | select.EPOLLIN)

    def _send_rest(self, fd: int, lane: Lane) -> None:
        assert lane.unsent is not None
        try:
            sent = lane.socket.send(lane.unsent)
        except BlockingIOError:
            return
        if sent < len(lane.unsent):
            lane.unsent = lane.unsent[sent:]
        else:
            lane.unsent = None
            self._poll.modify(fd, select.EPOLLIN)
