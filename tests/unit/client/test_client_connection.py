"""One blocking connection, with real sockets and peers that misbehave."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tidelog.client.cluster import Cluster
from tidelog.client.connection import Connection
from tidelog.client.deadline import Deadline
from tidelog.client.errors import BrokerUnreachable, NoBrokerReachable, RequestExpired, UnsupportedByBroker
from tidelog.model.errors import ErrorCode
from tidelog.wire.frames import FrameSplitter, encode_response, parse_request_header
from tidelog.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from tidelog.wire.messages.fetch import FetchRequest
from tidelog.wire.messages.metadata import MetadataRequest, MetadataResponse

Answer = Callable[[int, int, int], bytes | None]
VERSIONS = ApiVersionsResponse(api_keys=[ApiVersion(18, 0, 4), ApiVersion(3, 0, 13)])


class Peer:
    """A server that answers (api key, version, correlation id) with the bytes that a function gives; None hangs up."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.asked: list[tuple[int, int]] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def connect(self, timeout_s: float = 5.0) -> Connection:
        return Connection("127.0.0.1", self.port, "test", Deadline(timeout_s))

    def close(self) -> None:
        self._listening.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            # The client may hang up at any time.
            with connection, contextlib.suppress(ConnectionError):
                self._talk(connection)

    def _talk(self, connection: socket.socket) -> None:
        splitter = FrameSplitter()
        while data := connection.recv(65536):
            for frame in splitter.feed(data):
                header = parse_request_header(frame)
                self.asked.append((header.api_key, header.api_version))
                answer = self._answer(header.api_key, header.api_version, header.correlation_id)
                if answer is None:
                    return
                connection.sendall(answer)


def usual(api_key: int, version: int, correlation_id: int) -> bytes | None:
    message = VERSIONS if api_key == 18 else MetadataResponse(cluster_id="c")
    return bytes(encode_response(correlation_id, message, version))


@pytest.fixture
def start() -> Iterator[Callable[[Answer], Peer]]:
    peers: list[Peer] = []

    def start_one(answer: Answer) -> Peer:
        peers.append(Peer(answer))
        return peers[-1]

    yield start_one
    for peer in peers:
        peer.close()


def test_versions_are_negotiated_before_anything_else(start: Callable[[Answer], Peer]) -> None:
    peer = start(usual)
    connection = peer.connect()
    answer = connection.call(MetadataRequest([]), MetadataResponse, Deadline(5))
    assert answer.cluster_id == "c"
    assert peer.asked == [(18, 3), (3, 13)]
    with pytest.raises(UnsupportedByBroker):
        connection.call(FetchRequest(), MetadataResponse, Deadline(5))


def test_a_broker_that_does_not_know_our_first_request_is_asked_again_in_version_0(
    start: Callable[[Answer], Peer],
) -> None:
    def old(api_key: int, version: int, correlation_id: int) -> bytes | None:
        if version > 0:
            refusal = ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, [ApiVersion(18, 0, 0)])
            return bytes(encode_response(correlation_id, refusal, 0))
        return bytes(encode_response(correlation_id, VERSIONS, 0))

    peer = start(old)
    assert peer.connect().served[3] == (0, 13)
    assert peer.asked == [(18, 3), (18, 0)]


def test_requests_do_not_wait_for_each_other(start: Callable[[Answer], Peer]) -> None:
    all_sent = threading.Event()

    def after_all(api_key: int, version: int, correlation_id: int) -> bytes | None:
        if api_key != 18:
            all_sent.wait(5)
        return usual(api_key, version, correlation_id)

    connection = start(after_all).connect()
    ids = [connection.send(MetadataRequest([]), 12, Deadline(5)) for _ in range(5)]
    assert connection.in_flight == 5
    all_sent.set()
    assert all(connection.receive(number, MetadataResponse, Deadline(5)).cluster_id == "c" for number in reversed(ids))
    assert connection.in_flight == 0


def test_an_answer_that_comes_too_late_is_dropped(start: Callable[[Answer], Peer]) -> None:
    hold = threading.Event()

    def slow(api_key: int, version: int, correlation_id: int) -> bytes | None:
        if api_key != 18 and correlation_id == 1:
            hold.wait(5)
        return usual(api_key, version, correlation_id)

    connection = start(slow).connect()
    with pytest.raises(RequestExpired, match="did not answer in time"):
        connection.call(MetadataRequest([]), MetadataResponse, Deadline(0.05))
    hold.set()
    assert connection.call(MetadataRequest([]), MetadataResponse, Deadline(5)).cluster_id == "c"
    assert connection._answers == {}
    assert connection._abandoned == set()


def test_a_peer_that_hangs_up_is_unreachable(start: Callable[[Answer], Peer]) -> None:
    peer = start(lambda api_key, version, number: usual(api_key, version, number) if api_key == 18 else None)
    connection = peer.connect()
    with pytest.raises(BrokerUnreachable, match="closed the connection"):
        connection.call(MetadataRequest([]), MetadataResponse, Deadline(5))
    assert connection.closed


def test_a_peer_that_is_no_kafka_broker_is_unreachable(start: Callable[[Answer], Peer]) -> None:
    peer = start(lambda *_: b"HTTP/1.1 400 Bad Request\r\n\r\n")
    with pytest.raises(BrokerUnreachable, match="broke"):
        peer.connect()


def test_a_peer_that_claims_an_endless_answer_is_unreachable(start: Callable[[Answer], Peer]) -> None:
    peer = start(lambda *_: struct.pack(">i", 2**31 - 1))
    with pytest.raises(BrokerUnreachable, match="claims 2147483647 bytes"):
        peer.connect()


def test_a_peer_that_says_nothing_is_not_waited_for_forever() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        with pytest.raises(RequestExpired):
            Connection("127.0.0.1", silent.getsockname()[1], "test", Deadline(0.2))
        assert time.monotonic() - began < 5


def test_a_refused_connection_is_explained_in_a_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with Cluster(f"127.0.0.1:{port}") as cluster, pytest.raises(NoBrokerReachable) as raised:
        cluster.refresh(None, cluster.deadline())
    assert str(raised.value) == f"Cannot connect to 127.0.0.1:{port}: connection refused. Is a broker running there?"


def test_a_bootstrap_server_that_is_down_is_passed_over(start: Callable[[Answer], Peer]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        down = closed.getsockname()[1]
    peer = start(usual)
    with Cluster(f"127.0.0.1:{down},127.0.0.1:{peer.port}") as cluster:
        assert cluster.refresh([], cluster.deadline()).cluster_id == "c"


def test_a_broker_that_starts_a_moment_later_is_waited_for(start: Callable[[Answer], Peer]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    started: list[socket.socket] = []

    def open_later() -> None:
        time.sleep(0.2)
        started.append(socket.create_server(("127.0.0.1", port)))
        accepted, _ = started[0].accept()
        header = parse_request_header(memoryview(accepted.recv(65536))[4:])
        accepted.sendall(usual(header.api_key, header.api_version, header.correlation_id) or b"")

    threading.Thread(target=open_later, daemon=True).start()
    with Cluster(f"127.0.0.1:{port}", bootstrap_patience_s=5) as cluster:
        assert cluster.any_connection(cluster.deadline()).served[3] == (0, 13)
    started[0].close()
