"""The network of a simulated cluster: connections carry frames in order, late, and only while nobody has cut them.

A node whose process died answers that nobody is there; one that lost power, or is cut off, answers nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from harness.nodes.world import Process, World
from tidelog.broker.call import Call
from tidelog.broker.connection import ReadsRuns
from tidelog.env.network import StreamUser
from tidelog.log.file_slice import FileSlice
from tidelog.wire.frames import LENGTH_BYTES

Place = str


class Network:
    def __init__(self, world: World) -> None:
        self.world = world
        # Who listens where, and on whose machine.
        self.listeners: dict[int, SimulatedListener] = {}
        self.place_of_port: dict[int, Place] = {}
        # Machines without power, and ways that nothing passes.
        self.dark: set[Place] = set()
        self.cuts: set[tuple[Place, Place]] = set()
        self.latency = 0.001
        self.streams: list[SimulatedStream] = []

    def delay(self) -> float:
        return self.latency * (0.5 + self.world.random.random())

    def is_open(self, source: Place, target: Place) -> bool:
        return (source, target) not in self.cuts and source not in self.dark and target not in self.dark


class SimulatedDialer:
    """Connections of one process."""

    def __init__(self, network: Network, place: Place, process: Process) -> None:
        self._network = network
        self._place = place
        self._process = process

    def connect(self, host: str, port: int, user: StreamUser, frame_bytes_max: int) -> SimulatedStream:
        return SimulatedStream(self._network, self._place, self._process, port, user)


class SimulatedStream:
    """One connection: the caller's end of it; the other end is a `ServedConnection`."""

    def __init__(self, network: Network, place: Place, process: Process, port: int, user: StreamUser) -> None:
        self._network = network
        self._place = place
        self._process = process
        self._user = user
        self._target = network.place_of_port[port]
        self._port = port
        self._closed = False
        self._served: ServedConnection | None = None
        # Frames arrive in the order in which they were sent.
        self._there_at = self._back_at = 0.0
        # What was lost on the way holds up all behind it: nothing passes this way any more.
        self._stalled_there = self._stalled_back = False
        network.streams.append(self)
        self._to_target(self._arrive)

    def _to_target(self, act: Callable[[], None]) -> None:
        world = self._network.world
        self._there_at = max(self._there_at, world.now + self._network.delay())

        def deliver() -> None:
            if not self._network.is_open(self._place, self._target):
                self._stalled_there = True
            elif not self._stalled_there:
                act()

        world.after(self._there_at - world.now, deliver)

    def back(self, act: Callable[[], None]) -> None:
        world = self._network.world
        self._back_at = max(self._back_at, world.now + self._network.delay())

        def deliver() -> None:
            if not self._network.is_open(self._target, self._place):
                self._stalled_back = True
            elif not self._stalled_back and self._process.alive and not self._closed:
                self._hear(act)

        world.after(self._back_at - world.now, deliver)

    def _hear(self, act: Callable[[], None]) -> None:
        """Now, or when the caller is no longer paused."""
        if not self._process.paused:
            act()
        else:
            self._process.call_soon(lambda: None if self._closed else act())

    def _arrive(self) -> None:
        if self._closed:
            return
        listener = self._network.listeners.get(self._port)
        if listener is None or not listener.process.alive:
            self.back(lambda: self._end("cannot connect: ECONNREFUSED", refused=True))
            return
        if listener.is_serving:
            self._served = ServedConnection(self, listener, self._place)
        # Bound but not served yet: the system accepts, nobody answers.
        self.back(self._user.on_open)

    def send(self, frame: bytes) -> None:
        def act() -> None:
            served = self._served
            listener = self._network.listeners.get(self._port)
            if listener is None or not listener.process.alive or (served is not None and served.closed):
                self.back(lambda: self._end("the peer closed the connection", refused=True))
            elif served is not None and served.process is not listener.process:
                self.back(lambda: self._end("the connection was reset", refused=True))
            elif served is None:
                if listener.is_serving:
                    self._served = served = ServedConnection(self, listener, self._place)
                    served.receive(frame)
            else:
                served.receive(frame)

        if not self._closed:
            self._to_target(act)

    def break_off(self) -> None:
        """The process at the other end is gone: its system says so, if it can."""
        if not self._closed:
            self.back(lambda: self._end("the peer closed the connection", refused=True))

    def ends_at(self, place: Place) -> bool:
        return self._target == place

    def starts_at(self, place: Place) -> bool:
        return self._place == place

    def _end(self, reason: str, refused: bool) -> None:
        if not self._closed:
            self._closed = True
            self._user.on_closed(reason, refused)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            served = self._served
            if served is not None:
                self._to_target(lambda: served.close("the client closed the connection"))

    def caller_died(self) -> None:
        """The system closes what a dead process held."""
        if not self._closed:
            self.close()

    def deliver(self, frame: bytes) -> None:
        self.back(lambda: self._user.on_frame(memoryview(frame)))


class ServedConnection:
    """The end of a connection at a broker: what `broker/connection.py` is for sockets."""

    def __init__(self, stream: SimulatedStream, listener: SimulatedListener, peer: Place) -> None:
        self._stream = stream
        self._listener = listener
        self.process = listener.process
        self.peer_host = peer
        self.listener_name = listener.name
        self.closed = False
        self.run_reader: ReadsRuns | None = None
        self._calls: deque[Call] = deque()
        self._out: list[bytes] = []
        self._flushing = False
        listener.connections[self] = None

    @property
    def calls_waiting(self) -> int:
        return len(self._calls)

    def receive(self, frame: bytes) -> None:
        if self.closed or not self.process.alive:
            return
        if self.process.paused:
            self.process.call_soon(self.receive, frame)
            return
        turn = self._listener.turn
        turn.begin()
        view = memoryview(bytearray(frame))
        requests, reader = self._listener.requests, self.run_reader
        run = None if reader is None else requests.handle_run(self, reader, view, 0, len(view))
        call = run[0] if run is not None else requests.handle_frame(self, view[LENGTH_BYTES:])
        if call is None or self.closed:
            return
        self._calls.append(call)
        self.answered(call)

    def answered(self, call: Call) -> None:
        while self._calls and (output := self._calls[0].output) is not None:
            self._calls.popleft()
            self._out.append(_joined(output))
            if not self._flushing:
                self._flushing = True
                self._listener.turn.flush(self)

    def flush(self) -> None:
        self._flushing = False
        out, self._out = self._out, []
        for frame in out:
            if frame and not self.closed:
                self._stream.deliver(frame[LENGTH_BYTES:])

    def mute(self) -> None: ...

    def unmute(self) -> None: ...

    def close(self, reason: str) -> None:
        if self.closed:
            return
        self.closed = True
        self._calls.clear()
        self._listener.connections.pop(self, None)
        self._stream.break_off()
        if self._listener.connection_closed is not None:
            self.process.call_soon(self._listener.connection_closed, self)


def _joined(output: Any) -> bytes:
    if not output.splices:
        return bytes(output)
    parts, begun = [], 0
    whole = memoryview(output)
    for position, piece in output.splices:
        assert isinstance(piece, FileSlice)
        parts += [bytes(whole[begun:position]), piece.read()]
        begun = position
    return b"".join([*parts, bytes(whole[begun:])])


class Bound:
    """An address that is taken."""

    def __init__(self, network: Network, process: Process, port: int) -> None:
        self.network = network
        self.process = process
        self.port = port
        network.listeners[port] = SimulatedListener.idle(self)

    def getsockname(self) -> tuple[str, int]:
        return ("", self.port)

    def close(self) -> None:
        if self.network.listeners.get(self.port) is not None:
            del self.network.listeners[self.port]


class SimulatedListener:
    """What `broker/listener.py` is for sockets; the signature is the same."""

    def __init__(
        self,
        name: str,
        bound: Bound,
        loop: object,
        turn: Any,
        requests: Any,
        *,
        connection_closed: Any = None,
        **limits: object,
    ) -> None:
        self.name = name
        self._bound = bound
        self.process = bound.process
        self.turn = turn
        self.requests = requests
        self.connection_closed = connection_closed
        # In the order in which they came: a set would close them in another one each time.
        self.connections: dict[ServedConnection, None] = {}
        self.is_serving = False

    @classmethod
    def idle(cls, bound: Bound) -> SimulatedListener:
        return cls("", bound, None, None, None)

    @property
    def port(self) -> int:
        return self._bound.port

    def start(self) -> None:
        self.is_serving = True
        self._bound.network.listeners[self.port] = self

    def stop_accepting(self) -> None:
        self._bound.close()

    def close(self) -> None:
        for connection in tuple(self.connections):
            connection.close("the broker stops")
