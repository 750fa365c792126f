"""The connection core over real sockets: framing, order, back-pressure, files, limits."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from struct import Struct

import pytest

from tidelog.broker.call import Call
from tidelog.broker.connection import CALLS_WAITING_MAX, Connection, ReadsRuns
from tidelog.broker.receive import ARENA_BYTES, LARGE_FIRST_BYTES
from tidelog.broker.turn import Turn
from tidelog.env.files import RealFiles
from tidelog.log.file_slice import FileSlice
from tidelog.wire.compiler import Output
from tidelog.wire.frames import RequestHeader

LENGTH = Struct(">i")
FRAME_BYTES_MAX = 4 * 1024 * 1024


def frame(body: bytes) -> bytes:
    return LENGTH.pack(len(body)) + body


def output(body: bytes) -> Output:
    return Output(frame(body))


class Bench:
    """One connection whose handler is set by the test, and the client's end of it."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.turn = Turn(self.loop.call_soon, 16 * 1024 * 1024, lambda: 0)
        ours, self.client = socket.socketpair()
        ours.setblocking(False)
        self.client.setblocking(False)
        self.frames: list[bytes] = []
        self.close_reasons: list[str] = []
        self.handle: Callable[[Call, bytes], None] = lambda call, body: self.answer(call, body)
        self.connection = Connection(
            ours, "127.0.0.1", "PLAINTEXT", self.loop, self.turn, self, FRAME_BYTES_MAX, self._closed
        )

    def handle_run(
        self, connection: Connection, reader: ReadsRuns, view: memoryview, position: int, end: int
    ) -> tuple[Call, int] | None:
        raise AssertionError("nobody has learned a form here")

    def handle_frame(self, connection: Connection, view: memoryview) -> Call:
        body = bytes(view)
        self.frames.append(body)
        call = Call(connection, RequestHeader(0, 0, 0, None, 0))
        self.handle(call, body)
        return call

    def _closed(self, connection: Connection, reason: str) -> None:
        self.close_reasons.append(reason)

    @staticmethod
    def answer(call: Call, body: bytes) -> None:
        call.output = output(body)
        call.connection.answered(call)

    def run(self, seconds: float = 0.02) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))

    def send(self, data: bytes) -> None:
        self.loop.run_until_complete(self.loop.sock_sendall(self.client, data))
        self.run()

    def received(self) -> bytes:
        parts = []
        while True:
            self.run()
            try:
                part = self.client.recv(1 << 20)
            except BlockingIOError:
                return b"".join(parts)
            if not part:
                return b"".join(parts)
            parts.append(part)


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.connection.close("test over")
    made.client.close()
    made.loop.close()


def test_many_requests_of_one_read_are_answered_together_and_in_order(bench: Bench) -> None:
    bodies = [f"request {number}".encode() for number in range(500)]
    bench.send(b"".join(map(frame, bodies)))
    assert bench.received() == b"".join(map(frame, bodies))


@pytest.mark.parametrize("cut", [1, 3, 4, 5, 100])
def test_a_frame_may_arrive_in_pieces_cut_anywhere(bench: Bench, cut: int) -> None:
    data = frame(b"x" * 200)
    bench.send(data[:cut])
    assert bench.frames == []
    bench.send(data[cut:] + frame(b"next"))
    assert bench.frames == [b"x" * 200, b"next"]


@pytest.mark.parametrize("size", [ARENA_BYTES - 4, ARENA_BYTES * 2, LARGE_FIRST_BYTES * 3 + 1])
def test_a_frame_larger_than_the_arena_arrives_whole(bench: Bench, size: int) -> None:
    body = os.urandom(size)
    bench.handle = lambda call, _: Bench.answer(call, b"ok")
    bench.send(frame(body) + frame(b"after"))
    assert bench.frames == [body, b"after"]
    assert bench.turn.large_buffers.held_bytes == 0


@pytest.mark.parametrize("claimed", [-1, FRAME_BYTES_MAX + 1, 2**31 - 1])
def test_a_frame_that_claims_a_forbidden_size_closes_the_connection(bench: Bench, claimed: int) -> None:
    bench.send(LENGTH.pack(claimed) + b"abc")
    assert bench.connection.closed
    assert "claims" in bench.close_reasons[0]


def test_a_large_frame_gets_memory_only_as_its_bytes_arrive(bench: Bench) -> None:
    bench.send(LENGTH.pack(FRAME_BYTES_MAX) + b"just a few bytes")
    assert bench.turn.large_buffers.held_bytes <= LARGE_FIRST_BYTES


def test_answers_leave_in_the_order_of_requests_whichever_is_ready_first(bench: Bench) -> None:
    calls: list[Call] = []
    bench.handle = lambda call, _: calls.append(call)
    bench.send(frame(b"1") + frame(b"2") + frame(b"3"))
    Bench.answer(calls[2], b"third")
    Bench.answer(calls[1], b"second")
    assert bench.received() == b""
    Bench.answer(calls[0], b"first")
    assert bench.received() == frame(b"first") + frame(b"second") + frame(b"third")


def test_a_client_that_does_not_read_is_not_handled_without_bound(bench: Bench) -> None:
    bench.handle = lambda call, _: Bench.answer(call, b"z" * 100_000)
    request = frame(b"give me 100,000 bytes")
    requests = 400
    sending = bench.loop.create_task(bench.loop.sock_sendall(bench.client, request * requests))
    bench.run(0.2)
    assert len(bench.frames) < 200  # 20 MB at most, of the 200 MB asked for.
    got = len(bench.received())
    bench.loop.run_until_complete(sending)
    while got < requests * 100_004:
        more = len(bench.received())
        assert more, "the connection must go on once the client reads"
        got += more
    assert len(bench.frames) == requests


def test_requests_that_wait_are_bounded(bench: Bench) -> None:
    calls: list[Call] = []
    bench.handle = lambda call, _: calls.append(call)
    bench.send(frame(b"wait") * (CALLS_WAITING_MAX + 500))
    assert len(calls) == CALLS_WAITING_MAX
    for call in list(calls):
        Bench.answer(call, b"done")
    bench.received()
    assert len(calls) == CALLS_WAITING_MAX + 500


@pytest.mark.req("C8")
@pytest.mark.parametrize("length", [100, 8 * 1024 + 1, 3_000_000])
def test_file_ranges_are_sent_in_their_place_between_the_bytes(bench: Bench, tmp_path: Path, length: int) -> None:
    content = os.urandom(length + 10)
    (tmp_path / "segment").write_bytes(content)
    file = RealFiles().open(str(tmp_path / "segment"))

    def answer(call: Call, _: bytes) -> None:
        call.output = Output(b"headtail")
        call.output.splices = [(4, FileSlice(file, 10, length))]
        call.connection.answered(call)

    bench.handle = answer
    bench.send(frame(b"a") + frame(b"b"))
    assert bench.received() == (b"head" + content[10:] + b"tail") * 2


def test_a_file_that_was_cut_meanwhile_closes_the_connection_instead_of_hanging(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "segment").write_bytes(b"short")
    file = RealFiles().open(str(tmp_path / "segment"))

    def answer(call: Call, _: bytes) -> None:
        call.output = Output(b"head")
        call.output.splices = [(4, FileSlice(file, 0, 1_000_000))]
        call.connection.answered(call)

    bench.handle = answer
    bench.send(frame(b"a"))
    assert bench.received() == b"headshort"
    assert "truncated" in bench.close_reasons[0]


def test_a_client_that_vanishes_is_forgotten(bench: Bench) -> None:
    bench.client.close()
    bench.run()
    assert bench.connection.closed
    assert len(bench.close_reasons) == 1


def test_a_muted_client_is_answered_but_neither_read_nor_handled_until_it_is_unmuted(bench: Bench) -> None:
    def answer_and_mute(call: Call, body: bytes) -> None:
        call.connection.mute()
        bench.answer(call, body)

    bench.handle = answer_and_mute
    bench.send(frame(b"first") + frame(b"second"))
    assert bench.received() == frame(b"first")
    bench.send(frame(b"third"))
    assert bench.frames == [b"first"]

    bench.connection.unmute()
    assert bench.received() == frame(b"second")
    bench.handle = bench.answer
    bench.connection.unmute()
    assert bench.received() == frame(b"third")


def test_a_client_muted_twice_is_unmuted_twice(bench: Bench) -> None:
    bench.connection.mute()
    bench.connection.mute()
    bench.connection.unmute()
    bench.send(frame(b"wait"))
    assert bench.frames == []

    bench.connection.unmute()
    assert bench.received() == frame(b"wait")


def test_a_client_that_leaves_while_it_is_muted_is_forgotten(bench: Bench) -> None:
    bench.connection.mute()
    bench.connection.close("enough")
    bench.connection.unmute()
    bench.run()
    assert bench.close_reasons == ["enough"]
