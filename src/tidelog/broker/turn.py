"""One turn of the event loop: read every ready connection, write what came with one gathered write for each
partition, then answer all of them. Connections and handlers add work to the turn; `settle` does it. Nothing here
waits. What no answer needs (a transaction's markers) is done in the same turn, behind the answers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tidelog.broker.receive import TURN_BYTES_MAX, Arena, LargeBuffers
from tidelog.wire.schema import Response


class Writes(Protocol):
    """Something with staged bytes: a partition's leader."""

    def write_staged(self) -> None: ...


class IsLate(Protocol):
    """Something to be done that no answer of the turn waits for."""

    def do_late(self) -> None: ...


class Answers(Protocol):
    """Where a response goes."""

    def answer(self, response: Response) -> None: ...


class Waits(Protocol):
    """A request that decides after the turn's writes whether it is answered now or later."""

    def after_writes(self) -> None: ...


class Flushes(Protocol):
    """A connection with answers to send."""

    @property
    def has_backlog(self) -> bool: ...

    def flush(self) -> None: ...


class Turn:
    __slots__ = (
        "_answers",
        "_call_soon",
        "_flushes",
        "_late",
        "_read_clock_ms",
        "_scheduled",
        "_waits",
        "_writes",
        "arena",
        "large_buffers",
        "now_ms",
    )

    def __init__(
        self,
        call_soon: Callable[[Callable[[], None]], object],
        memory_in_flight_bytes_max: int,
        read_clock_ms: Callable[[], int],
    ) -> None:
        self.arena = Arena()
        self.large_buffers = LargeBuffers(memory_in_flight_bytes_max)
        self._read_clock_ms = read_clock_ms
        # The wall clock when the turn began: read once for all of its requests.
        self.now_ms = read_clock_ms()
        self._call_soon = call_soon
        self._scheduled = False
        self._writes: list[Writes] = []
        # What is done when the answers have left.
        self._late: list[IsLate] = []
        self._answers: list[tuple[Answers, Response]] = []
        self._waits: list[Waits] = []
        self._flushes: list[Flushes] = []

    def begin(self) -> None:
        """Called before a socket is read: the turn will be settled once every ready socket has been."""
        if not self._scheduled:
            self._scheduled = True
            self.now_ms = self._read_clock_ms()
            self._call_soon(self.settle)
        elif self.arena.taken_bytes > TURN_BYTES_MAX:
            self.settle()
            self.begin()

    def write(self, partition: Writes) -> None:
        """Have the partition's staged bytes written; called once a turn for each partition.

        What a timer or a coordinator writes outside of a turn starts one.
        """
        if not self._scheduled:
            self.begin()
        self._writes.append(partition)

    def later(self, work: IsLate) -> None:
        """Have something done when the turn's answers have left, before anybody can ask for what comes of it."""
        if not self._scheduled:
            self.begin()
        self._late.append(work)

    def answer(self, call: Answers, response: Response) -> None:
        """Have the response sent after the turn's writes, which may still put errors into it."""
        self._answers.append((call, response))

    def after_writes(self, request: Waits) -> None:
        self._waits.append(request)

    def flush(self, connection: Flushes) -> None:
        """Have the connection send. Answers that arise outside of a turn (time-outs) start one."""
        if not self._scheduled:
            self._scheduled = True
            self._call_soon(self.settle)
        self._flushes.append(connection)

    def write_now(self) -> None:
        """Write and acknowledge what is staged, so that the request that follows on a connection sees it."""
        while self._writes or self._late or self._answers or self._waits:
            late, self._late = self._late, []
            for work in late:
                work.do_late()
            self._write_once()

    def _write_once(self) -> None:
        writes, self._writes = self._writes, []
        for partition in writes:
            partition.write_staged()
        answers, self._answers = self._answers, []
        for call, response in answers:
            call.answer(response)
        waits, self._waits = self._waits, []
        for request in waits:
            request.after_writes()

    def settle(self) -> None:
        self._write_once()
        if self._writes or self._late:
            # Who has an answer by now need not wait for what is still to be done. No request is taken in between:
            # nobody who was answered can ask for what is not there yet.
            flushes, self._flushes = self._flushes, []
            for connection in flushes:
                if connection.has_backlog:
                    self._flushes.append(connection)
                else:
                    connection.flush()
            self.write_now()
        # From here on new work (a connection that goes on with its backlog once it has sent) belongs to the next turn.
        self._scheduled = False
        flushes, self._flushes = self._flushes, []
        for connection in flushes:
            connection.flush()
        self.arena.reset()
        if self.large_buffers.used_this_turn:
            self.large_buffers.reset()
