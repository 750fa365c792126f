"""Accepts connections and keeps count of them: limits in all and for each address, rates, idle ones closed."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Callable
from typing import Final

from tidelog.broker.connection import Connection, HandlesRequests
from tidelog.broker.connection_rates import ConnectionRates
from tidelog.broker.logs import log
from tidelog.broker.turn import Turn

ACCEPT_AT_ONCE_MAX: Final = 64
BACKLOG: Final = 1024
# When the process is out of file descriptors, wait this long before accepting again.
ACCEPT_PAUSE_SECONDS: Final = 0.5
IDLE_CHECKS_PER_PERIOD: Final = 10
IDLE_CHECK_SECONDS_MAX: Final = 30.0
# A large frame of which nothing arrives for this long gives its memory back.
STALLED_FRAME_SECONDS: Final = 30.0
# Connections of addresses that come too often are kept, unread, to be closed when the address may come again; more of
# them are closed at once.
HELD_MAX: Final = 1000
MILLISECONDS: Final = 1000


def bind(host: str, port: int) -> socket.socket:
    """A listening socket, or OSError that says which address is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(BACKLOG)
        listening.setblocking(False)
    except OSError as error:
        listening.close()
        raise OSError(error.errno, f"cannot listen on {host}:{port}: {error.strerror}") from error
    return listening


class Listener:
    def __init__(
        self,
        name: str,
        listening: socket.socket,
        loop: asyncio.AbstractEventLoop,
        turn: Turn,
        requests: HandlesRequests,
        *,
        frame_bytes_max: int,
        connections_max: int,
        connections_per_address_max: int,
        idle_seconds_max: float,
        connection_closed: Callable[[Connection], None] | None = None,
        rates: ConnectionRates | None = None,
        counts_in_all: bool = True,
    ) -> None:
        """`counts_in_all`: whether the rate of all connections together holds here."""
        self.name = name
        self._socket = listening
        self._port: int = listening.getsockname()[1]
        self._loop = loop
        self._turn = turn
        self._requests = requests
        self._frame_bytes_max = frame_bytes_max
        self._connections_max = connections_max
        self._per_address_max = connections_per_address_max
        self._idle_seconds_max = idle_seconds_max
        self._connection_closed = connection_closed
        self._rates = rates
        self._counts_in_all = counts_in_all
        self._held: set[socket.socket] = set()
        self._idle_timer: asyncio.TimerHandle | None = None
        self._per_address: Counter[str] = Counter()
        self.connections: set[Connection] = set()
        self.accepted = 0
        self.refused = 0
        self.received_bytes_of_closed = 0
        self.sent_bytes_of_closed = 0

    @property
    def port(self) -> int:
        return self._port

    def start(self) -> None:
        self._loop.add_reader(self._socket.fileno(), self._accept)
        self._schedule_idle_check()

    def stop_accepting(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()

    def close(self) -> None:
        self.stop_accepting()
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        for held in tuple(self._held):
            self._let_go(held)
        for connection in tuple(self.connections):
            connection.flush()
            connection.close("the broker stops")

    def _accept(self) -> None:
        for _ in range(ACCEPT_AT_ONCE_MAX):
            try:
                sock, address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                log.warning("cannot accept connections for now", reason=error.strerror, open=len(self.connections))
                self._accept_later(ACCEPT_PAUSE_SECONDS)
                return
            host = address[0]
            if len(self.connections) >= self._connections_max or self._per_address[host] >= self._per_address_max:
                self.refused += 1
                sock.close()
                continue
            if self._rates is None:
                self._take(sock, host)
            elif self._take_within_rates(sock, host, self._rates):
                return

    def _take_within_rates(self, sock: socket.socket, host: str, rates: ConnectionRates) -> bool:
        """Whether no more should be accepted for now."""
        now_ms = int(self._loop.time() * MILLISECONDS)
        wait_ms = rates.wait_of(host, now_ms)
        if wait_ms:
            self.refused += 1
            self._held.add(sock)
            if len(self._held) > HELD_MAX:
                self._let_go(sock)
            else:
                self._loop.call_later(wait_ms / MILLISECONDS, self._let_go, sock)
            return False
        self._take(sock, host)
        pause_ms = rates.pause_after(now_ms) if self._counts_in_all else 0
        if pause_ms:
            self._accept_later(pause_ms / MILLISECONDS)
        return bool(pause_ms)

    def _let_go(self, sock: socket.socket) -> None:
        self._held.discard(sock)
        sock.close()

    def _accept_later(self, seconds: float) -> None:
        self._loop.remove_reader(self._socket.fileno())
        self._loop.call_later(seconds, self._accept_again)

    def _accept_again(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.add_reader(self._socket.fileno(), self._accept)

    def _take(self, sock: socket.socket, host: str) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self.accepted += 1
        self._per_address[host] += 1
        connection = Connection(
            sock, host, self.name, self._loop, self._turn, self._requests, self._frame_bytes_max, self._closed
        )
        connection.active_at = self._loop.time()
        self.connections.add(connection)

    def _closed(self, connection: Connection, reason: str) -> None:
        self.connections.discard(connection)
        self.received_bytes_of_closed += connection.received_bytes
        self.sent_bytes_of_closed += connection.sent_bytes
        host = connection.peer_host
        self._per_address[host] -= 1
        if not self._per_address[host]:
            del self._per_address[host]
        log.debug("connection closed", peer=host, reason=reason)
        if self._connection_closed is not None:
            self._connection_closed(connection)

    def _schedule_idle_check(self) -> None:
        period = min(IDLE_CHECK_SECONDS_MAX, self._idle_seconds_max / IDLE_CHECKS_PER_PERIOD)
        self._idle_timer = self._loop.call_later(period, self._close_idle)

    def _close_idle(self) -> None:
        """Activity shows by the bytes that moved since the last check, so that requests need not read the clock."""
        now = self._loop.time()
        for connection in tuple(self.connections):
            moved = connection.received_bytes + connection.sent_bytes
            if moved != connection.seen_bytes or connection.calls_waiting:
                connection.seen_bytes = moved
                connection.active_at = now
                continue
            limit = STALLED_FRAME_SECONDS if connection.has_partial_frame else self._idle_seconds_max
            if now - connection.active_at > limit:
                connection.close(f"idle for {limit:.0f} s")
        self._schedule_idle_check()
