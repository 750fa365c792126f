"""A proxy between client and broker that can lose an answer: how tests make real clients send the same batch twice.

The broker must advertise the proxy's port. Frames are only counted and matched by correlation id, never changed.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from harness.server import HOST

PRODUCE = 0


class LossyProxy:
    """Forwards every frame, except answers that `lose_next` asked it to lose."""

    def __init__(self, port: int, broker_port: int) -> None:
        self.port = port
        self.lost = 0
        self._broker_port = broker_port
        self._losses: list[tuple[int, Callable[[], None]]] = []
        self._lock = threading.Lock()
        self._listener = socket.create_server((HOST, port), backlog=128)
        self._sockets: set[socket.socket] = set()

    def lose_next(self, api_key: int, meanwhile: Callable[[], None]) -> None:
        """Swallow the next answer to this API, close its connection, run `meanwhile`, then accept connections again."""
        with self._lock:
            self._losses.append((api_key, meanwhile))

    def serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:  # Held while `meanwhile` runs: who reconnects finds the world as it is after that.
                try:
                    broker = socket.create_connection((HOST, self._broker_port))
                except OSError:
                    client.close()
                    continue
                self._sockets |= {client, broker}
            asked: dict[int, int] = {}
            threading.Thread(target=self._forward_requests, args=(client, broker, asked), daemon=True).start()
            threading.Thread(target=self._forward_answers, args=(client, broker, asked), daemon=True).start()

    def close(self) -> None:
        # Only a shutdown wakes up a thread that waits in accept().
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in self._sockets:
            _hang_up(one)

    def _forward_requests(self, client: socket.socket, broker: socket.socket, asked: dict[int, int]) -> None:
        for frame in _frames(client):
            api_key, _, correlation_id = struct.unpack_from(">hhi", frame, 4)
            asked[correlation_id] = api_key
            try:
                broker.sendall(frame)
            except OSError:
                break
        _hang_up(broker)

    def _forward_answers(self, client: socket.socket, broker: socket.socket, asked: dict[int, int]) -> None:
        for frame in _frames(broker):
            api_key = asked.pop(struct.unpack_from(">i", frame, 4)[0], -1)
            with self._lock:
                loss = next((loss for loss in self._losses if loss[0] == api_key), None)
                if loss is not None:
                    self._losses.remove(loss)
                    self.lost += 1
                    loss[1]()
                    break
            try:
                client.sendall(frame)
            except OSError:
                break
        _hang_up(client)


@contextmanager
def lossy_proxy(port: int, broker_port: int) -> Iterator[LossyProxy]:
    proxy = LossyProxy(port, broker_port)
    thread = threading.Thread(target=proxy.serve, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.close()
        thread.join()


def _frames(source: socket.socket) -> Iterator[bytes]:
    """Whole frames with their length in front, until the other side hangs up."""
    with source.makefile("rb") as stream:
        while True:
            try:
                head = stream.read(4)
                if len(head) < 4:
                    return
                body = stream.read(struct.unpack(">i", head)[0])
            except OSError:
                return
            yield head + body


def _hang_up(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
