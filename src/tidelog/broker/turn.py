"""One turn of the event loop: read every ready connection, write what came with one gathered write for each
partition, then answer all of them. Connections and handlers add work to the turn; `settle` does it. Nothing here
waits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tidelog.broker.receive import TURN_BYTES_MAX, Arena, LargeBuffers


class Writes(Protocol):
    """Something with staged bytes: a partition's leader."""

    def write_staged(self) -> None: ...


class Answers(Protocol):
    """A request that is answered after the turn's writes."""

    def after_writes(self) -> None: ...


class Flushes(Protocol):
    """A connection with answers to send."""

    def flush(self) -> None: ...


class Turn:
    __slots__ = ("_answers", "_call_soon", "_flushes", "_scheduled", "_writes", "arena", "large_buffers", "on_begin")

    def __init__(
        self,
        call_soon: Callable[[Callable[[], None]], object],
        memory_in_flight_bytes_max: int,
        on_begin: Callable[[], None],
    ) -> None:
        self.arena = Arena()
        self.large_buffers = LargeBuffers(memory_in_flight_bytes_max)
        self.on_begin = on_begin
        self._call_soon = call_soon
        self._scheduled = False
        self._writes: list[Writes] = []
        self._answers: list[Answers] = []
        self._flushes: list[Flushes] = []

    def begin(self) -> None:
        """Called before a socket is read: the turn will be settled once every ready socket has been."""
        if not self._scheduled:
            self._scheduled = True
            self.on_begin()
            self._call_soon(self.settle)
        elif self.arena.taken_bytes > TURN_BYTES_MAX:
            self.settle()
            self.begin()

    def write(self, partition: Writes) -> None:
        """Have the partition's staged bytes written; called once a turn for each partition."""
        self._writes.append(partition)

    def answer(self, request: Answers) -> None:
        self._answers.append(request)

    def flush(self, connection: Flushes) -> None:
        """Have the connection send. Answers that arise outside of a turn (time-outs) start one."""
        if not self._scheduled:
            self._scheduled = True
            self._call_soon(self.settle)
        self._flushes.append(connection)

    def write_now(self) -> None:
        """Write and acknowledge what is staged, so that the request that follows on a connection sees it."""
        while self._writes or self._answers:
            writes, self._writes = self._writes, []
            for partition in writes:
                partition.write_staged()
            answers, self._answers = self._answers, []
            for request in answers:
                request.after_writes()

    def settle(self) -> None:
        self.write_now()
        # From here on new work (a connection that goes on with its backlog once it has sent) belongs to the next turn.
        self._scheduled = False
        flushes, self._flushes = self._flushes, []
        for connection in flushes:
            connection.flush()
        self.arena.reset()
        self.large_buffers.reset()
