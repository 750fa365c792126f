"""Whole nodes that must come back, or give up aloud, after one thing that went wrong: no chance, one fault each."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from harness.nodes.clients import Clients
from harness.nodes.cluster import Machine, NodeCluster
from harness.nodes.simulation import listening_to_failures
from tidelog.broker.lifecycle import BrokerLife
from tidelog.metadata.image import ClusterImage

SEED = 1
SESSION_SECONDS = 9.0
SOON_SECONDS = 5.0


class Bench:
    """Three brokers that know each other, and a topic."""

    def __init__(self) -> None:
        self.cluster = NodeCluster(SEED)
        for machine in self.cluster.machines.values():
            machine.start()
        self.cluster.settle()
        self.clients = Clients(self.cluster)
        self.clients.create_topic()
        self.wait(lambda: bool(self.clients.topics))
        self.cluster.settle()

    def wait(self, is_done: Callable[[], bool], seconds_max: float = SOON_SECONDS) -> None:
        end = self.cluster.world.now + seconds_max
        while not is_done():
            assert self.cluster.world.now < end
            self.cluster.run(0.05)

    def controller(self) -> Machine:
        (found,) = (machine for machine in self.cluster.up if _node(machine)._quorum.store.is_controller)
        return found

    def image(self, machine: Machine) -> ClusterImage:
        image: ClusterImage = _node(machine)._publisher.image
        return image


def _node(machine: Machine) -> Any:
    assert machine.node is not None
    return machine.node


def test_a_controller_whose_disk_was_full_still_fences_who_is_silent() -> None:
    with listening_to_failures():
        bench = Bench()
        controller = bench.controller()
        victim = next(machine for machine in bench.cluster.up if machine is not controller)
        victim.lose_power()
        # Full when the session of the silent broker ends, and long after.
        controller.disk.capacity_bytes = controller.disk.used_bytes
        bench.cluster.run(SESSION_SECONDS + SOON_SECONDS)
        assert not bench.image(controller).brokers[victim.node_id].fenced, "there was no room to say so"

        controller.disk.capacity_bytes = None

        bench.wait(lambda: bench.image(controller).brokers[victim.node_id].fenced)
        partitions = bench.image(controller).topics_by_id[bench.clients.topics["topic-1"]].partitions
        assert all(one.leader not in (-1, victim.node_id) for one in partitions.values())


def test_a_broker_that_cannot_serve_ends_instead_of_being_about_to_for_ever() -> None:
    with listening_to_failures(), socket.create_server(("127.0.0.1", 0)) as taken:
        metrics = {"tidelog.metrics.host": "127.0.0.1", "tidelog.metrics.port": str(taken.getsockname()[1])}
        cluster = NodeCluster(SEED, settings=metrics)
        ended: list[int] = []
        for machine in cluster.machines.values():
            machine.start()
            _node(machine).when_failed(lambda node_id=machine.node_id: ended.append(node_id))
        cluster.run(SOON_SECONDS)
        assert sorted(ended)[:3] == [1, 2, 3]


def test_a_broker_that_stops_is_not_held_up_when_the_cluster_has_replaced_it() -> None:
    """Its registration is gone while it leaves: nothing that it led is its own any more."""
    with listening_to_failures():
        bench = Bench()
        victim = next(machine for machine in bench.cluster.up if machine is not bench.controller())
        left: list[float] = []
        life: BrokerLife = _node(victim)._life
        life.epoch -= 1
        began = bench.cluster.world.now
        with patch.object(BrokerLife, "_register", _must_not):
            victim.leave(lambda: left.append(bench.cluster.world.now))
            bench.wait(lambda: bool(left))
        assert left[0] - began < 1.0


def _must_not(*arguments: object) -> None:
    raise AssertionError("who leaves does not register again")


def test_after_a_kill_of_everybody_all_is_served_again_within_seconds() -> None:
    with listening_to_failures():
        bench = Bench()
        for _ in range(3):
            for machine in bench.cluster.up:
                machine.kill()
            for machine in bench.cluster.machines.values():
                machine.start()
            began = bench.cluster.world.now
            bench.cluster.settle(15.0)
            bench.clients.check_that_all_is_served()
            assert bench.cluster.world.now - began < 15.0


def test_every_controller_is_registered_and_again_when_it_comes_back_as_another_incarnation() -> None:
    with listening_to_failures():
        bench = Bench()
        machine = bench.controller()
        bench.wait(lambda: set(bench.image(machine).controllers) == {1, 2, 3})
        before = bench.image(machine).controllers[machine.node_id].incarnation_id

        machine.kill()
        machine.start()
        bench.cluster.settle()

        bench.wait(lambda: bench.image(machine).controllers[machine.node_id].incarnation_id != before)
