"""Controllers and brokers in processes of their own, voters that come and go, as Apache Kafka's tools see them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.java import dump_log_segments, run_tool
from harness.raw_client import RawClient
from harness.waiting import wait_until
from tidelog.broker.child import BrokerProcess
from tidelog.client.cluster import Cluster
from tidelog.client.quorum import Quorum, describe_quorum
from tidelog.env.files import RealFiles
from tidelog.log.checkpoints import DirectoryOwner, read_owner
from tidelog.testing.ports import free_ports
from tidelog.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse, Listener
from tidelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from tidelog.wire.messages.metadata import MetadataRequest, MetadataResponse
from tidelog.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse

CLUSTER_ID = "TidelogRolesTest000000"


class Nodes:
    """Processes with roles; each has its port for clients, if it has clients, and that of its controller."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clients: dict[int, int] = {}
        self.controllers: dict[int, int] = {}
        self.processes: dict[int, BrokerProcess] = {}

    def start(self, node: int, roles: str, bootstrap: int | None = None) -> None:
        client, controller = free_ports(2)
        listeners = []
        if "broker" in roles:
            self.clients[node] = client
            listeners.append(f"PLAINTEXT://127.0.0.1:{client}")
        if "controller" in roles:
            self.controllers[node] = controller
            listeners.append(f"CONTROLLER://127.0.0.1:{controller}")
        properties = {
            "node.id": str(node),
            "process.roles": roles,
            "listeners": ",".join(listeners),
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.folder / f"node-{node}"),
            "tidelog.cluster.id": CLUSTER_ID,
        }
        if bootstrap is not None:
            properties["controller.quorum.bootstrap.servers"] = f"127.0.0.1:{self.controllers[bootstrap]}"
        self.processes[node] = BrokerProcess(node, properties, self.folder)
        self.processes[node].start()

    def client(self, node: int) -> RawClient:
        return RawClient(f"127.0.0.1:{self.clients[node]}", timeout_seconds=30)

    def metadata(self, node: int) -> MetadataResponse | None:
        try:
            with self.client(node) as client:
                return client.ask(MetadataRequest(topics=None), MetadataResponse)
        except OSError:
            return None

    def brokers_known_to(self, node: int) -> set[int]:
        told = self.metadata(node)
        return set() if told is None else {broker.node_id for broker in told.brokers}

    def quorum(self, node: int) -> Quorum:
        with Cluster(f"127.0.0.1:{self.clients[node]}") as connected:
            return describe_quorum(connected)

    def owner(self, node: int) -> DirectoryOwner:
        owner = read_owner(RealFiles(), str(self.folder / f"node-{node}"))
        assert owner is not None
        return owner


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    made = Nodes(tmp_path)
    yield made
    for process in made.processes.values():
        process.kill()


def create(nodes: Nodes, node: int, name: str) -> int:
    with nodes.client(node) as client:
        request = CreateTopicsRequest(topics=[CreatableTopic(name, 2, 2)])
        return client.ask(request, CreateTopicsResponse).topics[0].error_code


@pytest.mark.req("F5")
def test_brokers_that_are_no_voters_follow_a_controller_that_is_no_broker(nodes: Nodes) -> None:
    nodes.start(1, "controller")
    nodes.start(2, "broker", bootstrap=1)
    nodes.start(3, "broker", bootstrap=1)
    wait_until(lambda: nodes.brokers_known_to(2) == nodes.brokers_known_to(3) == {2, 3}, seconds_max=30)

    assert create(nodes, 2, "first") == create(nodes, 3, "second") == 0

    wait_until(lambda: (told := nodes.metadata(3)) is not None and len(told.topics) == 2)
    told = nodes.metadata(2)
    assert told is not None and told.controller_id in (2, 3), "clients are never sent to one that serves none"
    quorum = nodes.quorum(2)
    assert [voter.node_id for voter in quorum.voters] == [1]
    assert {observer.node_id for observer in quorum.observers} == {2, 3}

    status = run_tool(
        "org.apache.kafka.tools.MetadataQuorumCommand",
        "--bootstrap-controller", f"127.0.0.1:{nodes.controllers[1]}", "describe", "--replication",
    )  # fmt: skip
    assert status.count("Observer") == 2 and status.count("Leader") == 1
    log = next((nodes.folder / "node-2" / "__cluster_metadata-0").glob("*.log"))
    dumped = dump_log_segments(log, arguments=("--cluster-metadata-decoder",))
    assert '"type":"REGISTER_BROKER_RECORD"' in dumped and '"name":"second"' in dumped
    assert "KRaftVoters" in dumped and "LeaderChange" in dumped


def test_a_voter_is_added_takes_over_and_the_first_one_is_removed(nodes: Nodes) -> None:
    nodes.start(1, "broker,controller")
    wait_until(lambda: nodes.brokers_known_to(1) == {1}, seconds_max=30)
    nodes.start(2, "broker,controller", bootstrap=1)
    wait_until(lambda: nodes.brokers_known_to(1) == {1, 2}, seconds_max=30)
    assert create(nodes, 2, "before") == 0

    with nodes.client(2) as client:
        added = client.ask(
            AddRaftVoterRequest(
                cluster_id=CLUSTER_ID,
                timeout_ms=10_000,
                voter_id=2,
                voter_directory_id=nodes.owner(2).directory_id,
                listeners=[Listener("CONTROLLER", "127.0.0.1", nodes.controllers[2])],
            ),
            AddRaftVoterResponse,
        )
    assert (added.error_code, added.error_message) == (0, None)
    assert {voter.node_id for voter in nodes.quorum(1).voters} == {1, 2}

    with nodes.client(1) as client:
        removed = client.ask(
            RemoveRaftVoterRequest(cluster_id=CLUSTER_ID, voter_id=1, voter_directory_id=nodes.owner(1).directory_id),
            RemoveRaftVoterResponse,
        )
    assert (removed.error_code, removed.error_message) == (0, None)
    wait_until(lambda: nodes.quorum(2).leader == 2, seconds_max=15)
    assert [voter.node_id for voter in nodes.quorum(2).voters] == [2]
    assert create(nodes, 1, "after") == 0


def test_the_only_controller_hands_over_what_its_broker_leads_and_leads_again_when_it_is_back(nodes: Nodes) -> None:
    nodes.start(1, "broker,controller")
    wait_until(lambda: nodes.brokers_known_to(1) == {1}, seconds_max=30)
    with nodes.client(1) as client:
        request = CreateTopicsRequest(topics=[CreatableTopic("its-own", 2, 1)])
        assert client.ask(request, CreateTopicsResponse).topics[0].error_code == 0
    nodes.start(2, "broker", bootstrap=1)
    wait_until(lambda: nodes.brokers_known_to(1) == {1, 2}, seconds_max=30)
    assert create(nodes, 2, "shared") == 0
    wait_until(lambda: (told := nodes.metadata(2)) is not None and all(
        len(partition.isr_nodes) == 2
        for topic in told.topics if topic.name == "shared" for partition in topic.partitions
    ))  # fmt: skip

    nodes.processes[1].ask_to_stop()
    nodes.processes[1].wait()

    told = nodes.metadata(2)
    assert told is not None
    leaders = {topic.name: {partition.leader_id for partition in topic.partitions} for topic in told.topics}
    assert leaders == {"its-own": {-1}, "shared": {2}}

    nodes.processes[1].start()
    wait_until(lambda: nodes.brokers_known_to(1) == {1, 2}, seconds_max=30)
    told = nodes.metadata(1)
    assert told is not None
    leaders = {topic.name: {partition.leader_id for partition in topic.partitions} for topic in told.topics}
    assert leaders == {"its-own": {1}, "shared": {2}}
