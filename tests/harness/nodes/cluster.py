"""A simulated cluster of whole broker nodes: the real `BrokerNode`, on simulated disks, network, clocks and threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from harness.nodes.network import Bound, Network, SimulatedDialer, SimulatedListener
from harness.nodes.referee import Referee
from harness.nodes.world import Process, World
from tidelog.broker.assembly import BrokerNode
from tidelog.broker.ports import Ports
from tidelog.env.simulated_files import SimulatedFiles
from tidelog.log.errors import LogFailed

CLUSTER_ID = "TidelogSimulation00000"


class Machine:
    """One machine: its disk stays, the process on it comes and goes."""

    def __init__(self, cluster: NodeCluster, node_id: int) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.place = f"node-{node_id}"
        self.disk = SimulatedFiles(cluster.world.random.randrange(2**32))
        self.client_port = 9000 + node_id
        self.controller_port = 9100 + node_id
        self.clock_offset_ms = 0
        self.process: Process | None = None
        self.node: BrokerNode | None = None
        for port in (self.client_port, self.controller_port):
            cluster.network.place_of_port[port] = self.place

    @property
    def is_up(self) -> bool:
        return self.process is not None and self.process.alive

    @property
    def is_paused(self) -> bool:
        return self.process is not None and self.process.paused

    def properties(self) -> dict[str, str]:
        voters = ",".join(f"{node}@node-{node}:{9100 + node}" for node in self.cluster.voter_ids)
        return {
            "node.id": str(self.node_id),
            "process.roles": "broker,controller" if self.node_id in self.cluster.voter_ids else "broker",
            "listeners": ",".join(
                [f"PLAINTEXT://{self.place}:{self.client_port}"]
                + (
                    [f"CONTROLLER://{self.place}:{self.controller_port}"]
                    if self.node_id in self.cluster.voter_ids
                    else []
                )
            ),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": voters,
            "log.dirs": "/data",
            "tidelog.cluster.id": CLUSTER_ID,
            "log.cleaner.enable": "false",
            "default.replication.factor": "3",
            "min.insync.replicas": "2",
            **self.cluster.settings,
        }

    def start(self) -> None:
        assert not self.is_up
        cluster = self.cluster
        cluster.network.dark.discard(self.place)
        process = self.process = Process(cluster.world, self.clock_offset_ms)
        ports = Ports(
            clock=process.clock,
            files=self.disk,
            executor=process.executor,
            dialer=SimulatedDialer(cluster.network, self.place, process),
            entropy=process.entropy,
            bind=cast(Any, lambda _, port: Bound(cluster.network, process, port)),
            listen=cast(Any, SimulatedListener),
        )
        self.node = BrokerNode(self.properties(), cast(Any, process), ports)
        cluster.referee.watch(self.node_id, self.node)
        self.node.when_failed(self._failed)
        try:
            self.node.start()
        except (OSError, LogFailed):
            # The disk is full: the process ends with an error, and somebody tries again later.
            assert self.disk.capacity_bytes is not None, "a disk with room is no reason not to start"
            self.node.stop()
            self.kill()
            cluster.world.after(1.0, lambda: None if self.is_up else self.start())

    def _failed(self) -> None:
        """A process whose disk failed ends, and is started again when somebody has made room."""
        process = self.process

        def again() -> None:
            self.disk.capacity_bytes = None
            if self.process is process and self.is_up:
                self.kill()
            if not self.is_up:
                self.start()

        self.cluster.world.after(0.0, self.kill if self.is_up else lambda: None)
        self.cluster.world.after(2.0, again)

    def kill(self) -> None:
        """kill -9: the page cache stays, the system answers for the dead process."""
        self._end()
        # What only the process knew is gone; what it wrote, the system still has.
        self.disk.locked.clear()
        self._hang_up()

    def lose_power(self) -> None:
        """What was not synced may be gone, and nobody answers until the machine is back."""
        self.cluster.network.dark.add(self.place)
        self._end()
        self.disk.crash()

    def stop(self) -> None:
        """A clean stop, without handing over."""
        assert self.node is not None and self.process is not None
        self.node.stop()
        self._end()
        self.disk.locked.clear()
        self._hang_up()

    def leave(self, left: Callable[[], None]) -> None:
        """A stop as service managers do it: others lead first. `left` is called when the process has ended."""
        assert self.node is not None and self.process is not None
        process = self.process

        def end() -> None:
            if self.process is process and process.alive:
                self.stop()
                left()

        self.node.leave_then(end)

    def pause(self) -> None:
        """SIGSTOP: its connections stay open, its time passes, it does nothing."""
        if self.process is not None:
            self.process.pause()

    def resume(self) -> None:
        if self.process is not None and self.is_paused:
            self.process.resume()

    def _end(self) -> None:
        assert self.process is not None
        self.process.die()
        network = self.cluster.network
        for port in (self.client_port, self.controller_port):
            network.listeners.pop(port, None)

    def _hang_up(self) -> None:
        for stream in self.cluster.network.streams:
            if stream.ends_at(self.place):
                stream.break_off()
            elif stream.starts_at(self.place):
                stream.caller_died()
        self.cluster.network.streams = [
            stream
            for stream in self.cluster.network.streams
            if not stream.ends_at(self.place) and not stream.starts_at(self.place)
        ]


class NodeCluster:
    """Machines 1 to n; the first `voters` of them vote."""

    def __init__(self, seed: int, nodes: int = 3, voters: int = 3, settings: dict[str, str] | None = None) -> None:
        self.world = World(seed)
        self.network = Network(self.world)
        self.referee = Referee(self)
        self.settings = settings or {}
        self.voter_ids = tuple(range(1, voters + 1))
        self.machines = {node_id: Machine(self, node_id) for node_id in range(1, nodes + 1)}

    @property
    def up(self) -> list[Machine]:
        return [machine for machine in self.machines.values() if machine.is_up]

    def run(self, seconds: float) -> None:
        self.world.run_until(self.world.now + seconds)

    def is_quiet(self) -> bool:
        """Whether all nodes are up, let in, and know the same."""
        nodes = [machine.node for machine in self.machines.values() if machine.is_up and machine.node is not None]
        if len(nodes) < len(self.machines) or not all(node.is_ready for node in nodes):
            return False
        offsets = {node._publisher.image.offset for node in nodes}
        brokers = nodes[0]._publisher.image.brokers
        return len(offsets) == 1 and len(brokers) == len(nodes) and not any(one.fenced for one in brokers.values())

    def settle(self, seconds_max: float = 60.0) -> None:
        """Mend everything, start everybody, and wait until all agree."""
        self.network.cuts.clear()
        for machine in self.machines.values():
            machine.disk.capacity_bytes = None
            machine.resume()
            if not machine.is_up:
                machine.start()
        end = self.world.now + seconds_max
        while not self.is_quiet():
            assert self.world.now < end, f"seed {self.world.seed}: the nodes did not agree within {seconds_max:.0f} s"
            self.run(0.1)
