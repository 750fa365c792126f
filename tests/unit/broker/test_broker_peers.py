"""Requests to other nodes, over real sockets to a real broker and to a peer that misbehaves."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tidelog.broker.listener import bind
from tidelog.broker.peers import Peer, PeerFailed, Peers
from tidelog.env.network import SocketDialer
from tidelog.model.listeners import Address
from tidelog.testing.embedded import Broker
from tidelog.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from tidelog.wire.messages.leader_and_isr import LeaderAndIsrRequest
from tidelog.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tidelog.wire.messages.metadata import MetadataRequest, MetadataResponse


class Bench:
    """Peers on a loop of the test's own, and what they were answered."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.executor = ThreadPoolExecutor(1)
        self.peers = Peers("test", SocketDialer(self.loop, self.executor), self.loop)
        self.answers: list[Any] = []

    def ask(self, peer: Peer, *requests: Any, timeout_ms: int = 5000) -> list[Any]:
        """Send all at once, wait for all answers."""
        begun = len(self.answers)
        for request in requests:
            peer.send(request, self.answers.append, timeout_ms=timeout_ms)
        assert len(self.answers) == begun, "an answer from inside of send"
        self.loop.run_until_complete(self._until(begun + len(requests)))
        return self.answers[begun:]

    async def _until(self, count: int) -> None:
        async with asyncio.timeout(10):
            while len(self.answers) < count:
                await asyncio.sleep(0.002)


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.peers.close()
    made.executor.shutdown()
    made.loop.close()


@contextlib.contextmanager
def listening() -> Iterator[tuple[socket.socket, Address]]:
    server = bind("127.0.0.1", 0)
    with contextlib.closing(server):
        yield server, Address("127.0.0.1", server.getsockname()[1])


def test_requests_are_pipelined_and_answered_in_their_order(bench: Bench) -> None:
    with Broker() as broker:
        peer = bench.peers.to(Address("localhost", broker.port), "test")
        answers = bench.ask(peer, *[MetadataRequest(), DescribeClusterRequest(), ListGroupsRequest()] * 50)
    assert [type(answer) for answer in answers] == [MetadataResponse, DescribeClusterResponse, ListGroupsResponse] * 50


def test_an_api_that_the_peer_does_not_serve_fails_alone(bench: Bench) -> None:
    with Broker() as broker:
        peer = bench.peers.to(Address("127.0.0.1", broker.port), "test")
        answers = bench.ask(peer, MetadataRequest(), LeaderAndIsrRequest(), MetadataRequest())
    (refused,) = [answer for answer in answers if isinstance(answer, PeerFailed)]
    assert not refused.sent and sum(isinstance(answer, MetadataResponse) for answer in answers) == 2


def test_a_peer_that_is_not_there_fails_and_is_found_when_it_comes(bench: Bench) -> None:
    with Broker() as broker:
        address = Address("127.0.0.1", broker.port)
    peer = bench.peers.to(address, "test")
    for _ in range(3):
        (failed,) = bench.ask(peer, MetadataRequest())
        assert isinstance(failed, PeerFailed) and not failed.sent
    with Broker(port=address.port):
        (answer,) = bench.ask(peer, MetadataRequest())
    assert isinstance(answer, MetadataResponse)


def test_a_connection_that_breaks_is_made_again(bench: Bench) -> None:
    with Broker() as broker:
        address = Address("127.0.0.1", broker.port)
        peer = bench.peers.to(address, "test")
        assert isinstance(bench.ask(peer, MetadataRequest())[0], MetadataResponse)
    with Broker(port=address.port):
        # The end of the old connection may still be noticed by the first request.
        answers = [bench.ask(peer, MetadataRequest())[0] for _ in range(3)]
    assert isinstance(answers[-1], MetadataResponse)


def test_who_gets_no_answer_in_time_is_told_with_all_behind_it(bench: Bench) -> None:
    with listening() as (_, address):
        peer = bench.peers.to(address, "test")
        answers = bench.ask(peer, MetadataRequest(), MetadataRequest(), timeout_ms=50)
    assert all(isinstance(answer, PeerFailed) for answer in answers)


def test_nonsense_breaks_the_connection(bench: Bench) -> None:
    with listening() as (server, address):
        peer = bench.peers.to(address, "test")
        peer.send(MetadataRequest(), bench.answers.append)
        bench.loop.run_until_complete(asyncio.sleep(0.05))
        accepted, _ = server.accept()
        accepted.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        bench.loop.run_until_complete(bench._until(1))
        accepted.close()
    assert isinstance(bench.answers[0], PeerFailed)


def test_closing_tells_everybody_who_waits(bench: Bench) -> None:
    with listening() as (_, address):
        peer = bench.peers.to(address, "test")
        peer.send(MetadataRequest(), bench.answers.append)
        bench.peers.close()
    assert isinstance(bench.answers[0], PeerFailed)
