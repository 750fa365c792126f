"""A real cluster for tests: `with tidelog.Cluster(3) as cluster: ...`, whose brokers can be killed, paused and cut off.

Each broker is a process of its own, broker and controller in one, with temporary data and free ports. What brokers say
to each other goes through `testing/network.py`. When the program ends, even by kill -9, its brokers end, too.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, TypeVar

from tidelog.broker.child import BrokerProcess
from tidelog.client.admin import Admin, accepted
from tidelog.client.cluster import Cluster as Connected
from tidelog.client.errors import ClientError
from tidelog.client.quorum import describe_quorum
from tidelog.model.ids import TopicName
from tidelog.model.local_cluster import NodePorts, local_cluster
from tidelog.testing.network import CLIENTS, HOST, Network, Party
from tidelog.testing.ports import free_ports

START_SECONDS_MAX: Final = 180.0
STOP_SECONDS_MAX: Final = 60.0
POLL_SECONDS: Final = 0.02
ASK_SECONDS_MAX: Final = 5.0

T = TypeVar("T")


class Cluster:
    """Brokers 1 to n. `config` takes Kafka's own property names and is for all of them; `racks` says where each stands.

    With `cut_clients=True` what clients send goes through the network, too, so that `cut("clients", 1)` works; it costs
    them some speed. With `cuttable=False` nothing does: for measuring.
    """

    def __init__(
        self,
        brokers: int = 3,
        *,
        data: str | Path | None = None,
        config: Mapping[str, object] | None = None,
        racks: Sequence[str] = (),
        cuttable: bool = True,
        cut_clients: bool = False,
    ) -> None:
        if brokers < 1:
            raise ValueError("a cluster has at least one broker")
        self._count = brokers
        self._data = None if data is None else Path(data)
        self._temporary: Path | None = None
        self._config = {name: _as_property(value) for name, value in (config or {}).items()}
        self._racks = racks
        self._cuttable = cuttable
        self._cut_clients = cut_clients and cuttable
        self._network: Network | None = None
        self._ports: list[NodePorts] = []
        self._brokers: dict[int, BrokerProcess] = {}

    # What a test asks

    @property
    def bootstrap_servers(self) -> str:
        """What to give a client, as "host:port,host:port,…"; brokers that are down are in it, too."""
        return ",".join(self._address(node) for node in self._running())

    @property
    def nodes(self) -> list[int]:
        """The numbers of the brokers."""
        return list(self._running())

    @property
    def alive(self) -> list[int]:
        """Those whose process is there and not paused."""
        return [node for node, broker in self._running().items() if broker.is_alive and not broker.is_paused]

    @property
    def data(self) -> Path:
        """The folder with the data, the properties and the logs of all brokers."""
        folder = self._data or self._temporary
        if folder is None:
            raise RuntimeError("the cluster is not running")
        return folder

    @property
    def controller(self) -> int:
        """Who leads the metadata quorum, as the brokers that are alive know it."""
        return self._eventually("there is no controller", self._find_controller)

    def address(self, node: int) -> str:
        """Where clients reach one broker, as "host:port"."""
        self._broker(node)
        return self._address(node)

    def pid(self, node: int) -> int:
        """The process of a broker."""
        return self._broker(node).pid

    def log(self, node: int, lines: int = 40) -> str:
        """The last lines that a broker logged."""
        return self._broker(node).log_tail(lines)

    def leader(self, topic: str, partition: int = 0) -> int:
        """Who leads a partition; waits while nobody does."""

        def find() -> int | None:
            found = self._leader_now(topic, partition)
            return found if found in self.alive else None

        return self._eventually(f"{topic}-{partition} has no leader", find)

    def wait_until_ready(self, seconds_max: float = START_SECONDS_MAX) -> None:
        """Until every broker that is alive serves clients and knows the others."""
        self._eventually("the brokers did not find each other", lambda: self._is_ready() or None, seconds_max)

    def wait_until_in_sync(self, seconds_max: float = START_SECONDS_MAX) -> None:
        """Until every partition has a leader and all its replicas are in its ISR, and every broker alive says so."""
        self._eventually("replicas are behind", lambda: self._all_in_sync() or None, seconds_max)

    # What a test does to it

    def start(self) -> Cluster:
        """Start all brokers; returns when they serve clients."""
        if self._brokers:
            raise RuntimeError("the cluster is running already")
        if self._data is None:
            self._temporary = Path(tempfile.mkdtemp(prefix="tidelog-"))
        try:
            self._lay_out()
            for broker in self._brokers.values():
                broker.start()
            self.wait_until_ready()
        except BaseException:
            self._end()
            raise
        return self

    def stop(self) -> None:
        """Stop all brokers. Data that is not temporary is closed cleanly and can be opened again."""
        try:
            if self._data is not None:
                self._stop_cleanly()
        finally:
            self._end()

    def kill(self, node: int) -> None:
        """kill -9."""
        self._broker(node).kill()

    def pause(self, node: int) -> None:
        """Let a broker do nothing from now on, though its connections stay open."""
        self._broker(node).pause()

    def resume(self, node: int) -> None:
        """Let a paused broker go on as if nothing had been."""
        self._broker(node).resume()

    def stop_broker(self, node: int) -> None:
        """Stop one broker as a service manager does: it hands over what it leads first."""
        broker = self._broker(node)
        broker.resume()
        broker.ask_to_stop()
        broker.wait(STOP_SECONDS_MAX)

    def restart(self, node: int) -> None:
        """Start a broker again, stopping it cleanly if it runs; returns when it serves clients."""
        broker = self._broker(node)
        if broker.is_alive:
            self.stop_broker(node)
        broker.start()
        self._eventually(f"broker {node} did not come back", lambda: self._is_back(node) or None)

    def start_again(self) -> None:
        """Start all brokers that are down, together; returns when they serve clients."""
        for broker in self._running().values():
            if not broker.is_alive:
                broker.start()
        self.wait_until_ready()

    def cut(self, source: Party, target: Party) -> None:
        """Let nothing pass from one broker to another any more; the way back stays open."""
        self._links(source, target).cut(source, target)

    def isolate(self, node: int) -> None:
        """Cut a broker off from all others, both ways."""
        for other in self._running():
            if other != node:
                self.cut(node, other)
                self.cut(other, node)

    def delay(self, source: Party, target: Party, seconds: float) -> None:
        """Let everything from one broker to another take this much longer."""
        self._links(source, target).delay(source, target, seconds)

    def reset(self, one: Party, other: Party) -> None:
        """Break the connections between two; they may make new ones at once."""
        self._links(one, other).reset(one, other)

    def heal(self, one: Party | None = None, other: Party | None = None) -> None:
        """Undo cuts and delays: all, those around one broker, or those between two."""
        if self._network is not None:
            self._network.heal(one, other)

    def __enter__(self) -> Cluster:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    # How it is built

    def _lay_out(self) -> None:
        """Give every broker its ports, its links and its settings. A later start keeps the ports."""
        if not self._ports:
            wanted = 3 if self._cuttable else 2
            free = iter(free_ports(self._count * wanted))
            self._ports = [
                NodePorts(next(free), next(free), next(free) if self._cuttable else None) for _ in range(self._count)
            ]
        ports = self._ports
        if self._cuttable:
            self._network = Network()
            ports = [self._linked(node, own) for node, own in enumerate(self._ports, 1)]
        data = [str(self.data / f"broker-{node}") for node in range(1, self._count + 1)]
        settings = local_cluster(ports, data=data, config=self._config)
        for properties, rack in zip(settings, self._racks, strict=False):
            properties["broker.rack"] = rack
        self._brokers = {
            node: BrokerProcess(node, properties, self.data) for node, properties in enumerate(settings, 1)
        }
        self._reached = {node: own.reached_client or own.client for node, own in enumerate(ports, 1)}

    def _linked(self, node: int, ports: NodePorts) -> NodePorts:
        assert ports.internal is not None
        return NodePorts(
            ports.client,
            ports.controller,
            ports.internal,
            self._link(node, ports.client) if self._cut_clients else None,
            self._link(node, ports.internal),
            self._link(node, ports.controller),
        )

    def _link(self, node: int, target_port: int) -> int:
        assert self._network is not None
        listener = socket.create_server((HOST, 0), backlog=128)
        port: int = listener.getsockname()[1]
        self._network.forward(node, target_port, listener)
        return port

    def _stop_cleanly(self) -> None:
        self.heal()
        running = [broker for broker in self._brokers.values() if broker.is_alive]
        for broker in running:
            broker.resume()
            broker.ask_to_stop()
        for broker in running:
            broker.wait(STOP_SECONDS_MAX)

    def _end(self) -> None:
        for broker in self._brokers.values():
            broker.kill()
        self._brokers = {}
        if self._network is not None:
            self._network.close()
            self._network = None
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = None

    # How it is looked at

    def _running(self) -> dict[int, BrokerProcess]:
        if not self._brokers:
            raise RuntimeError("the cluster is not running")
        return self._brokers

    def _broker(self, node: int) -> BrokerProcess:
        brokers = self._running()
        if node not in brokers:
            raise ValueError(f"there is no broker {node}: they are 1 to {len(brokers)}")
        return brokers[node]

    def _address(self, node: int) -> str:
        return f"{HOST}:{self._reached[node]}"

    def _links(self, source: Party, target: Party) -> Network:
        for party in (source, target):
            if party != CLIENTS:
                self._broker(int(party))
            elif not self._cut_clients:
                raise RuntimeError("links of clients can only be cut with Cluster(cut_clients=True)")
        if self._network is None:
            raise RuntimeError("links can only be cut with Cluster(cuttable=True)")
        return self._network

    @contextlib.contextmanager
    def _admin(self, node: int) -> Iterator[Admin]:
        # Past the network: a test that has cut clients off may still look.
        address = f"{HOST}:{self._ports[node - 1].client}"
        with Connected(address, client_id="tidelog-testing", timeout_s=ASK_SECONDS_MAX) as cluster:
            yield Admin(cluster)

    def _is_ready(self) -> bool:
        alive = set(self.alive)
        return bool(alive) and all(self._known_to(node) >= alive for node in alive)

    def _known_to(self, node: int) -> set[int]:
        """The brokers that a broker would tell its clients of; none while it does not answer."""
        try:
            with self._admin(node) as admin:
                description = admin.describe_cluster()
        except ClientError:
            return set()
        return {int(broker.id) for broker in description.brokers if broker.id not in description.fenced}

    def _is_back(self, node: int) -> bool:
        if not self._brokers[node].is_alive:
            raise RuntimeError(f"broker {node} ended at start-up:\n{self.log(node)}")
        return all(node in self._known_to(other) for other in self.alive)

    def _find_controller(self) -> int | None:
        for node in self.alive:
            with contextlib.suppress(ClientError), self._admin(node) as admin:
                found = int(describe_quorum(admin.cluster).leader)
                if found in self.alive:
                    return found
        return None

    def _leader_now(self, topic: str, partition: int) -> int | None:
        for node in self.alive:
            with contextlib.suppress(ClientError), self._admin(node) as admin:
                described = accepted(admin.describe_topics([TopicName(topic)])[TopicName(topic)])
                return int(described.partitions[partition].leader)
        return None

    def _all_in_sync(self) -> bool:
        views = []
        for node in self.alive:
            try:
                with self._admin(node) as admin:
                    views.append(admin.list_topics())
            except ClientError:
                return False
        # Brokers hear of a new topic one after the other: one that has not yet must not be asked about it.
        return (
            bool(views)
            and all(view == views[0] for view in views)
            and all(
                partition.leader >= 0 and set(partition.isr) == set(partition.replicas)
                for topic in views[0]
                for partition in topic.partitions
            )
        )

    def _eventually(self, problem: str, find: Callable[[], T | None], seconds_max: float = START_SECONDS_MAX) -> T:
        """What `find` finds, as soon as it does."""
        end = time.monotonic() + seconds_max
        while True:
            for node, broker in self._running().items():
                if broker.exit_code not in (None, 0, -signal.SIGKILL):
                    raise RuntimeError(f"broker {node} ended with {broker.exit_code}:\n{broker.log_tail()}")
            found = find()
            if found is not None:
                return found
            if time.monotonic() > end:
                logs = "\n".join(f"broker {node}:\n{broker.log_tail(15)}" for node, broker in self._brokers.items())
                raise TimeoutError(f"{problem}\n{logs}")
            time.sleep(POLL_SECONDS)


def _as_property(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
