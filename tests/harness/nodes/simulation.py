"""One run of a simulated cluster of whole nodes: clients at work, faults by chance, then everything is mended and must
be as it was promised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any
from unittest.mock import patch

from harness.nodes.clients import CLIENTS, Clients
from harness.nodes.cluster import Machine, NodeCluster
from tidelog.broker.logs import EventLog

SECONDS = 20.0
STEP_SECONDS = 0.05
REQUEST_SECONDS_MAX = 40.0
# How long the nodes may take to find each other when all are back: after anything, and after crashes alone, where
# every machine says at once that a process is gone.
AGREE_SECONDS_MAX = 60.0
AGREE_AFTER_CRASHES_SECONDS_MAX = 25.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What may happen in a run."""

    # Everything that is acknowledged is on the disk: then any number of machines may lose power at once.
    synced: bool
    # Processes die, stop and stand still; machines, disks and the network are well.
    crashes_only: bool
    faults_per_second: float
    writes_per_second: float
    topics_per_second: float
    snapshot_bytes: int

    @classmethod
    def of(cls, random: Random) -> Plan:
        return cls(
            synced=random.random() < 0.5,
            crashes_only=random.random() < 0.4,
            faults_per_second=random.choice([0.2, 0.5, 1.0]),
            writes_per_second=random.choice([2, 10]),
            topics_per_second=random.choice([0.2, 1]),
            snapshot_bytes=random.choice([1500, 5000, 20 << 20]),
        )

    @property
    def settings(self) -> dict[str, str]:
        settings = {"metadata.log.max.record.bytes.between.snapshots": str(self.snapshot_bytes)}
        return {**settings, "log.flush.interval.messages": "1"} if self.synced else settings


@dataclass(frozen=True, slots=True)
class Outcome:
    steps: int
    controllers: int
    topics: int
    written: int
    crashes: int


class Simulation:
    def __init__(self, seed: int, seconds: float = SECONDS) -> None:
        # Every third cluster has a broker that does not vote.
        self.cluster = NodeCluster(seed, nodes=4 if seed % 3 == 0 else 3)
        self.random = self.cluster.world.random
        self.plan = Plan.of(self.random)
        self.cluster.settings.update(self.plan.settings)
        self.clients = Clients(self.cluster)
        self._seconds = seconds
        self._crashes = 0
        self._has_forgotten = False
        self._is_over = False
        crashes = [self._kill, self._kill, self._kill_all, self._stop, self._leave, self._pause]
        others = [self._lose_power, self._cut, self._cut, self._isolate, self._slow, self._leap, self._fill_disk]
        self._faults = crashes if self.plan.crashes_only else crashes + others

    def run(self) -> Outcome:
        """Raises Violation when a promise is broken, and whatever else goes wrong inside a node."""
        cluster = self.cluster
        with listening_to_failures():
            for machine in cluster.machines.values():
                machine.start()
            end = cluster.world.now + self._seconds
            while cluster.world.now < end:
                cluster.run(STEP_SECONDS)
                self._maybe(self.plan.topics_per_second, self.clients.create_topic)
                self._maybe(self.plan.writes_per_second, self.clients.write)
                self._maybe(self.plan.writes_per_second / 4, self.clients.read)
                self._maybe(self.plan.faults_per_second, self._fault)
            self._is_over = True
            if self.plan.crashes_only:
                cluster.settle(AGREE_AFTER_CRASHES_SECONDS_MAX)
            else:
                cluster.settle(AGREE_SECONDS_MAX)
                # Longer than any request may wait on a connection that a cut has left hanging.
                cluster.run(REQUEST_SECONDS_MAX)
                cluster.settle(AGREE_SECONDS_MAX)
            self.clients.check_that_all_is_served()
            self.clients.check_everything()
        return Outcome(
            cluster.world.steps,
            cluster.referee.controllers,
            len(self.clients.topics),
            len(self.clients.written),
            self._crashes,
        )

    def _maybe(self, per_second: float, act: Callable[[], None]) -> None:
        if self.random.random() < per_second * STEP_SECONDS:
            act()

    # --- faults -------------------------------------------------------------------------------------------------------

    def _fault(self) -> None:
        if self._has_forgotten:
            # A record that is acknowledged is in two page caches. One machine may lose its own; until it has everything
            # again nobody else may fail: without a sync no broker could promise more.
            self._has_forgotten = not self._all_in_sync()
            return
        self.random.choice(self._faults)()

    def _victim(self) -> Machine | None:
        up = self.cluster.up
        return self.random.choice(up) if up else None

    def _bring_back(self, machine: Machine) -> None:
        def start() -> None:
            if not machine.is_up:
                machine.start()

        delay = self.random.choice([0.05, 1.0, 4.0, 12.0]) * self.random.random()
        self.cluster.world.after(0.0 if self._is_over else delay, start)

    def _kill(self) -> None:
        machine = self._victim()
        if machine is not None:
            self._crashes += 1
            machine.kill()
            self._bring_back(machine)

    def _kill_all(self) -> None:
        for machine in self.cluster.up:
            self._crashes += 1
            machine.kill()
            self._bring_back(machine)

    def _pause(self) -> None:
        machine = self._victim()
        if machine is not None:
            machine.pause()
            self.cluster.world.after(self.random.choice([0.3, 2.0, 12.0]) * self.random.random(), machine.resume)

    def _leave(self) -> None:
        machine = self._victim()
        if machine is not None and machine.node is not None and machine.node.is_ready and not machine.is_paused:
            machine.leave(lambda: self._bring_back(machine))

    def _stop(self) -> None:
        machine = self._victim()
        if machine is not None and machine.node is not None and machine.node.is_ready and not machine.is_paused:
            machine.stop()
            self._bring_back(machine)

    def _lose_power(self) -> None:
        """One machine, and where all that was acknowledged is synced, perhaps all of them."""
        victims = [machine for machine in [self._victim()] if machine is not None]
        if self.plan.synced and self.random.random() < 0.3:
            victims = self.cluster.up
        elif not self.plan.synced:
            if not self._all_in_sync():
                return
            self._has_forgotten = True
        for machine in victims:
            self._crashes += 1
            machine.lose_power()
            self._bring_back(machine)

    def _all_in_sync(self) -> bool:
        """Whether every record is on all machines, so that one may forget some."""
        if self.cluster.network.cuts or not self.cluster.is_quiet():
            return False
        node: Any = self.cluster.machines[1].node
        return all(
            set(partition.isr) == set(partition.replicas)
            for topic in node._publisher.image.topics_by_id.values()
            for partition in topic.partitions.values()
        )

    def _cut(self) -> None:
        places = [*(machine.place for machine in self.cluster.machines.values()), CLIENTS]
        cut = (self.random.choice(places), self.random.choice(places))
        self._cut_for(self.random.choice([0.5, 3.0, 12.0]), [cut])

    def _isolate(self) -> None:
        machine = self.random.choice(list(self.cluster.machines.values()))
        others = [other.place for other in self.cluster.machines.values() if other is not machine]
        both = [(machine.place, other) for other in others] + [(other, machine.place) for other in others]
        self._cut_for(self.random.choice([0.5, 3.0, 12.0]), both)

    def _cut_for(self, seconds: float, cuts: list[tuple[str, str]]) -> None:
        self.cluster.network.cuts.update(cuts)
        self.cluster.world.after(seconds, lambda: self.cluster.network.cuts.difference_update(cuts))

    def _slow(self) -> None:
        network = self.cluster.network
        network.latency = self.random.choice([0.05, 0.3])
        self.cluster.world.after(2.0, lambda: setattr(network, "latency", 0.001))

    def _fill_disk(self) -> None:
        """For a while nothing more can be written, or only a little."""
        machine = self._victim()
        if machine is None:
            return
        disk = machine.disk
        disk.capacity_bytes = disk.used_bytes + self.random.choice([0, 100, 3000])
        self.cluster.world.after(self.random.choice([0.3, 3.0]), lambda: setattr(disk, "capacity_bytes", None))

    def _leap(self) -> None:
        machine = self._victim()
        if machine is not None and machine.process is not None:
            machine.process.clock.leap(self.random.choice([-3_600_000, -500, 500, 3_600_000]))


@contextmanager
def listening_to_failures() -> Iterator[None]:
    """What a node would only log and survive is ours to mend; all else that it logs is not looked at."""

    def fail(self: EventLog, event: str, **fields: object) -> None:
        raise

    def ignore(self: EventLog, event: str, **fields: object) -> None:
        pass

    with ExitStack() as stack:
        stack.enter_context(patch.object(EventLog, "exception", fail))
        for level in ("debug", "info", "warning", "error"):
            stack.enter_context(patch.object(EventLog, level, ignore))
        yield
