"""The network for tests delays, cuts one way, resets and heals, and changes no byte."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest

from tidelog.testing.network import CLIENTS, HOST, Network

QUIET_S = 0.3
SOON_S = 10.0


class Echo:
    """A server that sends everything back."""

    def __init__(self) -> None:
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self._accepted: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in self._accepted:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                one, _ = self._listener.accept()
                self._accepted.append(one)
                threading.Thread(target=self._echo, args=(one,), daemon=True).start()

    def _echo(self, one: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := one.recv(65536):
                one.sendall(data)
            one.close()


class Caller:
    """One end of a connection through the network; its first frame says who it is."""

    def __init__(self, port: int, client_id: str) -> None:
        self.socket = socket.create_connection((HOST, port))
        self.socket.settimeout(SOON_S)
        name = client_id.encode()
        self.say(struct.pack(">ihhih", 10 + len(name), 18, 0, 1, len(name)) + name)

    def say(self, data: bytes) -> None:
        self.socket.sendall(data)
        self.expected = len(data)

    def hears(self) -> bytes:
        """Everything that was said last, come back."""
        data = b""
        while len(data) < self.expected:
            more = self.socket.recv(65536)
            if not more:
                raise ConnectionError("closed")
            data += more
        return data

    def hears_nothing(self) -> bool:
        self.socket.settimeout(QUIET_S)
        try:
            return self.socket.recv(1) is None
        except TimeoutError:
            return True
        finally:
            self.socket.settimeout(SOON_S)


@pytest.fixture
def echo() -> Iterator[Echo]:
    server = Echo()
    yield server
    server.close()


@pytest.fixture
def network() -> Iterator[Network]:
    made = Network()
    yield made
    made.close()


@pytest.fixture
def port(network: Network, echo: Echo) -> int:
    """Node 2, seen through the network."""
    listener = socket.create_server((HOST, 0))
    network.forward(2, echo.port, listener)
    number: int = listener.getsockname()[1]
    return number


def connected(port: int, client_id: str = "broker-1-fetcher-0") -> Caller:
    caller = Caller(port, client_id)
    caller.hears()
    return caller


def test_bytes_pass_unchanged_and_in_order(port: int) -> None:
    caller = connected(port)
    data = random.Random(1).randbytes(3_000_000)

    threading.Thread(target=caller.say, args=(data,), daemon=True).start()
    caller.expected = len(data)

    assert caller.hears() == data


def test_a_cut_way_is_silent_until_it_is_healed_and_loses_nothing(network: Network, port: int) -> None:
    caller = connected(port)
    network.cut(1, 2)

    caller.say(b"are you there?")

    assert caller.hears_nothing()
    network.heal(1, 2)
    assert caller.hears() == b"are you there?"


def test_the_way_back_can_be_cut_alone(network: Network, port: int, echo: Echo) -> None:
    caller = connected(port)
    network.cut(2, 1)

    caller.say(b"heard but not answered")

    assert caller.hears_nothing()
    network.heal()
    assert caller.hears() == b"heard but not answered"


def test_a_cut_between_two_nodes_touches_no_other(network: Network, port: int) -> None:
    third, client = connected(port, "raft-client-3"), connected(port, "rdkafka")
    network.cut(1, 2)
    network.cut(2, 1)

    for caller in (third, client):
        caller.say(b"all is well")
        assert caller.hears() == b"all is well"


def test_clients_are_those_who_are_no_broker(network: Network, port: int) -> None:
    client, broker = connected(port, "my-broker-1"), connected(port, "broker-1")
    network.cut(CLIENTS, 2)

    client.say(b"hello")
    broker.say(b"hello")

    assert broker.hears() == b"hello"
    assert client.hears_nothing()


def test_who_connects_over_a_cut_link_waits(network: Network, port: int) -> None:
    network.cut(2, 1)

    caller = Caller(port, "node-1")

    assert caller.hears_nothing()
    network.heal(1)
    assert caller.hears()


def test_a_delayed_link_is_late_but_not_slow(network: Network, port: int) -> None:
    caller = connected(port)
    network.delay(1, 2, 0.2)
    began = time.monotonic()
    data = random.Random(2).randbytes(2_000_000)
    threading.Thread(target=caller.say, args=(data,), daemon=True).start()
    caller.expected = len(data)

    assert caller.hears() == data
    taken = time.monotonic() - began
    assert taken >= 0.2
    # Two million bytes are many chunks: each waits for its own time, not for the one before.
    assert taken < 4.0


def test_a_reset_ends_connections_and_leaves_new_ones_alone(network: Network, port: int) -> None:
    caller, other = connected(port), connected(port, "broker-3-fetcher-0")
    network.reset(1, 2)

    with pytest.raises(OSError):
        while caller.socket.recv(1):
            pass
    other.say(b"still here")
    assert other.hears() == b"still here"
    assert connected(port)


def test_a_node_that_is_gone_ends_the_connection(port: int, echo: Echo) -> None:
    caller = connected(port)
    echo.close()

    with contextlib.suppress(ConnectionResetError):
        assert caller.socket.recv(1) == b""
    later = Caller(port, "broker-1")
    with contextlib.suppress(ConnectionResetError):
        assert later.socket.recv(1) == b""


def test_a_closed_network_leaves_no_thread_behind(echo: Echo) -> None:
    before = threading.active_count()
    network = Network()
    listener = socket.create_server((HOST, 0))
    network.forward(2, echo.port, listener)
    caller = connected(listener.getsockname()[1])
    network.cut(1, 2)

    network.close()

    assert not any(thread.name == "tidelog-network" and thread is network._thread for thread in threading.enumerate())
    assert threading.active_count() <= before + 1  # The echo's own.
    with contextlib.suppress(ConnectionResetError):
        assert caller.socket.recv(1) == b""
