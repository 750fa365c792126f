"""A network that can fail: proxies in front of brokers that delay, cut one way, reset and heal what goes through them.

Used by `testing/cluster.py`; works on every system, without rights or namespaces. Bytes are never changed, dropped or
reordered: like a TCP connection over a network that fails, they arrive late or the connection ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypeVar

HOST: Final = "127.0.0.1"
CHUNK_BYTES: Final = 1 << 16
# Bytes that are on their way in one direction of one connection, before its sender is no longer read from.
CHUNKS_IN_FLIGHT_MAX: Final = 64
CALL_SECONDS_MAX: Final = 10.0
ABORT_ON_CLOSE: Final = struct.pack("ii", 1, 0)

# A node by its number, or everybody who is no broker.
Party: TypeAlias = int | str
CLIENTS: Final = "clients"
# How brokers name themselves in the requests that they send to each other.
BROKER_CLIENT_ID: Final = re.compile(r"(?:broker|node|controller|raft-client)-(\d+)(?:\D|$)")
# Length, API key, API version, correlation id, length of the client id.
FRAME_HEAD: Final = struct.Struct(">ihhih")

T = TypeVar("T")


@dataclass(slots=True)
class _Link:
    """What happens to bytes that go from one party to another."""

    passable: asyncio.Event = field(default_factory=asyncio.Event)
    delay_s: float = 0.0


@dataclass(slots=True, eq=False)
class _Connection:
    """Two sockets that are one connection to those at its ends."""

    caller: Party
    node: int
    transports: tuple[asyncio.WriteTransport, asyncio.WriteTransport]

    def abort(self) -> None:
        for transport in self.transports:
            _abort(transport)


class Network:
    """Links between nodes and clients, with a thread of its own that carries the bytes."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._links: dict[tuple[Party, Party], _Link] = {}
        self._connections: set[_Connection] = set()
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tidelog-network", daemon=True)
        self._thread.start()

    # What tests call

    def forward(self, node: int, target_port: int, listener: socket.socket) -> None:
        """Carry what arrives at a bound socket to a port of a node."""

        async def serve() -> None:
            def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                self._spawn(self._carry(node, target_port, reader, writer))

            self._servers.append(await asyncio.start_server(accept, sock=listener, limit=CHUNK_BYTES))

        self._wait(serve())

    def cut(self, source: Party, target: Party) -> None:
        """Nothing passes from one to the other any more; the way back stays open."""
        self._change(lambda: self._link(source, target).passable.clear())

    def delay(self, source: Party, target: Party, seconds: float) -> None:
        """Whatever is sent from now on takes this much longer."""

        def set_delay() -> None:
            self._link(source, target).delay_s = seconds

        self._change(set_delay)

    def reset(self, one: Party, other: Party) -> None:
        """End the connections between two; new ones are possible at once."""

        def abort() -> None:
            for connection in list(self._connections):
                if {connection.caller, connection.node} == {one, other}:
                    connection.abort()

        self._change(abort)

    def heal(self, one: Party | None = None, other: Party | None = None) -> None:
        """Undo cuts and delays: all, those around one party, or those between two."""

        def mend() -> None:
            for ends, link in self._links.items():
                if (one is None or one in ends) and (other is None or other in ends):
                    link.passable.set()
                    link.delay_s = 0.0

        self._change(mend)

    def close(self) -> None:
        """End everything at once."""
        if not self._loop.is_running():
            return

        async def end() -> None:
            for server in self._servers:
                server.close()
            for connection in list(self._connections):
                connection.abort()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

        self._wait(end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CALL_SECONDS_MAX)
        self._loop.close()

    # What the thread does

    def _link(self, source: Party, target: Party) -> _Link:
        link = self._links.get((source, target))
        if link is None:
            link = self._links[source, target] = _Link()
            link.passable.set()
        return link

    async def _carry(
        self, node: int, target_port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """One connection, from its first byte to its end."""
        connection = None
        try:
            first, caller = await _first_bytes(reader)
            there, back = self._link(caller, node), self._link(node, caller)
            # Who connects over a link that is cut hears nothing, not even that there is nobody.
            await _both_passable(there, back)
            node_reader, node_writer = await asyncio.open_connection(HOST, target_port, limit=CHUNK_BYTES)
            connection = _Connection(caller, node, (writer.transport, node_writer.transport))
            self._connections.add(connection)
            for one in (writer, node_writer):
                one.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            ways = [
                asyncio.ensure_future(_pump(reader, node_writer, there, first)),
                asyncio.ensure_future(_pump(node_reader, writer, back)),
            ]
            try:
                done, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
            if all(way.exception() is None for way in done):
                # One end has said all that it wanted to: what is still to be sent is sent.
                for one in (writer, node_writer):
                    one.close()
                self._connections.discard(connection)
                connection = None
                return
            _abort(writer.transport)
        except OSError:
            _abort(writer.transport)
        finally:
            if connection is not None:
                connection.abort()
                self._connections.discard(connection)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _change(self, change: Callable[[], None]) -> None:
        async def run() -> None:
            change()

        self._wait(run())

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        done: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return done.result(CALL_SECONDS_MAX)


async def _first_bytes(reader: asyncio.StreamReader) -> tuple[bytes, Party]:
    """The beginning of the first request, and whose it is. Who says nothing is a client."""
    data = b""
    wanted = FRAME_HEAD.size
    while len(data) < wanted:
        more = await reader.read(CHUNK_BYTES)
        if not more:
            raise ConnectionResetError
        data += more
        if len(data) >= FRAME_HEAD.size:
            wanted = FRAME_HEAD.size + max(FRAME_HEAD.unpack_from(data)[4], 0)
    found = BROKER_CLIENT_ID.match(data[FRAME_HEAD.size : wanted].decode(errors="replace"))
    return data, int(found[1]) if found else CLIENTS


async def _both_passable(there: _Link, back: _Link) -> None:
    while not (there.passable.is_set() and back.passable.is_set()):
        await there.passable.wait()
        await back.passable.wait()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, link: _Link, first: bytes = b"") -> None:
    """Carry one direction until its sender ends it and all has arrived. Raises OSError when the sender is cut off."""
    loop = asyncio.get_running_loop()
    on_the_way: asyncio.Queue[tuple[float, bytes | OSError]] = asyncio.Queue(CHUNKS_IN_FLIGHT_MAX)

    async def send() -> None:
        try:
            data = first or await reader.read(CHUNK_BYTES)
            while data:
                await on_the_way.put((loop.time() + link.delay_s, data))
                data = await reader.read(CHUNK_BYTES)
            await on_the_way.put((loop.time() + link.delay_s, b""))
        except OSError as error:
            await on_the_way.put((loop.time() + link.delay_s, error))

    sending = asyncio.ensure_future(send())
    try:
        while True:
            due, data = await on_the_way.get()
            if due > loop.time():
                await asyncio.sleep(due - loop.time())
            # An end does not pass over a link that is cut, either.
            await link.passable.wait()
            if isinstance(data, OSError):
                raise data
            if not data:
                return
            writer.write(data)
            await writer.drain()
    finally:
        sending.cancel()


def _abort(transport: asyncio.WriteTransport) -> None:
    """End a connection so that the other end sees an error, as it does when a host or a route is gone."""
    ended = transport.get_extra_info("socket")
    if ended is not None and not transport.is_closing():
        with contextlib.suppress(OSError):
            ended.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABORT_ON_CLOSE)
    transport.abort()
