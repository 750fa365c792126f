"""Commands about a cluster of three: ours beside Kafka's own, `tidelog cluster`, `tidelog watch` and `tidelog up`."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import tidelog
from harness.apache_kafka import java_command
from harness.waiting import wait_until
from tidelog.client.admin import Admin
from tidelog.client.cluster import Cluster as Connected
from tidelog.testing.cluster import Cluster
from tidelog.testing.ports import free_ports

SECONDS_MAX = 120
JAVA = {
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with tidelog.Cluster(3, cuttable=False) as made:
        run_ours(made, "kafka-topics", "--create", "--topic", "orders", "--partitions", "3")
        made.wait_until_in_sync()
        yield made


def run(program: list[str], name: str, cluster: Cluster, arguments: tuple[str, ...]) -> tuple[int, str]:
    address = ["--bootstrap-server", cluster.bootstrap_servers]
    done = subprocess.run(
        [*program, *address, *arguments], capture_output=True, text=True, timeout=SECONDS_MAX, stdin=subprocess.DEVNULL
    )
    return done.returncode, done.stdout


def run_ours(cluster: Cluster, name: str, *arguments: str) -> tuple[int, str]:
    return run([sys.executable, "-m", "tidelog", name], name, cluster, arguments)


def run_java(cluster: Cluster, name: str, *arguments: str) -> tuple[int, str]:
    return run(java_command(JAVA[name]), name, cluster, arguments)


def own_command(cluster: Cluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tidelog", *arguments, "-b", cluster.bootstrap_servers]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=True)


def alike(text: str) -> str:
    """Without what differs from one moment to the next."""
    text = re.sub(r"(HighWatermark|MaxFollowerLag|MaxFollowerLagTimeMs): +-?\d+", r"\1: N", text)
    return re.sub(r"\b\d+ *\t(?=\d+ *\t)|\b\d{13} *\t|\b\d+ ms ago *\t", "N\t", text)


@pytest.mark.req("D22")
@pytest.mark.parametrize(
    "command",
    [
        "kafka-topics --describe --topic orders",
        "kafka-metadata-quorum describe --status",
        "kafka-metadata-quorum describe --replication",
        "kafka-reassign-partitions --list",
        "kafka-leader-election --election-type preferred --topic orders --partition 0",
    ],
)
def test_our_commands_say_what_kafkas_own_say(cluster: Cluster, command: str) -> None:
    name, *arguments = command.split()

    ours, theirs = run_ours(cluster, name, *arguments), run_java(cluster, name, *arguments)

    assert (ours[0], alike(ours[1])) == (theirs[0], alike(theirs[1]))
    assert ours[0] == 0
    assert ours[1]


def test_replicas_move_with_a_plan_of_either_command(cluster: Cluster, tmp_path: Path) -> None:
    topics, plan = tmp_path / "topics.json", tmp_path / "plan.json"
    run_ours(cluster, "kafka-topics", "--create", "--topic", "moving", "--partitions", "4", "--replication-factor", "1")
    topics.write_text('{"topics": [{"topic": "moving"}], "version": 1}')
    code, said = run_ours(
        cluster, "kafka-reassign-partitions", "--generate", "--topics-to-move-json-file", str(topics),
        "--broker-list", "1,2",
    )  # fmt: skip
    assert code == 0, said
    proposed = json.loads(said.splitlines()[-1])
    for row in proposed["partitions"]:
        row["replicas"] = [1, 2] if row["partition"] % 2 else [2, 1]
        row["log_dirs"] = ["any", "any"]
    plan.write_text(json.dumps(proposed))
    executed = run_java(cluster, "kafka-reassign-partitions", "--execute", "--reassignment-json-file", str(plan))
    assert executed[0] == 0, executed[1]

    verify = ("kafka-reassign-partitions", "--verify", "--reassignment-json-file", str(plan))
    wait_until(lambda: run_ours(cluster, *verify)[1].count("is completed") == 4, 60)

    assert run_ours(cluster, *verify) == run_java(cluster, *verify)
    with Connected(cluster.bootstrap_servers) as connected:
        (moved,) = (topic for topic in Admin(connected).list_topics() if topic.name == "moving")
    assert [set(one.replicas) for one in moved.partitions] == [{1, 2}] * 4


def test_partitions_are_spread_over_brokers_by_one_command(cluster: Cluster) -> None:
    own_command(cluster, "topics", "create", "spread", "-p", "3", "-r", "1")
    own_command(cluster, "cluster", "reassign", "spread", "--to", "1,2,3", "-r", "3", "--wait")
    cluster.wait_until_in_sync()

    described = json.loads(own_command(cluster, "topics", "describe", "spread", "--format", "json").stdout)
    partitions = described[0]["partitions"]
    assert sorted(one["replicas"][0] for one in partitions) == [1, 2, 3]
    assert all(sorted(one["isr"]) == [1, 2, 3] for one in partitions)


@pytest.mark.req("G5", "G6", "G7")
def test_a_cluster_that_lost_a_broker_is_shown_as_it_is_and_mended(cluster: Cluster) -> None:
    victim = cluster.leader("orders")
    cluster.kill(victim)
    wait_until(lambda: len(json.loads(own_command(cluster, "cluster", "--format", "json").stdout)["brokers"]) == 2, 30)
    wait_until(lambda: cluster.leader("orders") != victim, 30)

    status = json.loads(own_command(cluster, "cluster", "status", "--format", "json").stdout)
    watched = json.loads(own_command(cluster, "watch", "--once", "--topic", "orders", "--format", "json").stdout)
    picture = own_command(cluster, "watch", "--once", "--topic", "orders").stdout
    quorum = json.loads(own_command(cluster, "cluster", "quorum", "--format", "json").stdout)

    assert "orders-0" in status["partitions_under_replicated"]
    assert status["partitions_without_leader"] == []
    assert {broker["id"] for broker in watched["brokers"] if broker["answers"]} == {1, 2, 3} - {victim}
    assert all(set(one["end_offsets"]) == {str(node) for node in {1, 2, 3} - {victim}} for one in watched["partitions"])
    assert "gone" in picture
    assert quorum["leader"] != victim
    assert {one["id"] for one in quorum["replicas"]} == {1, 2, 3}

    cluster.restart(victim)
    cluster.wait_until_in_sync()
    election = ("--election-type", "preferred", "--topic", "orders", "--partition", "0")
    assert run_ours(cluster, "kafka-leader-election", *election) == (
        0,
        "Successfully completed leader election (PREFERRED) for partitions orders-0\n",
    )
    wait_until(lambda: cluster.leader("orders") == victim, 30)
    own_command(cluster, "cluster", "elect-leaders")
    assert json.loads(own_command(cluster, "cluster", "elect-leaders", "--format", "json").stdout) == []


def test_one_command_starts_three_brokers_keeps_them_up_and_stops_them(tmp_path: Path) -> None:
    port = free_ports(6)[0]
    command = [sys.executable, "-m", "tidelog", "up", "--brokers", "3", "--port", str(port), "--data", str(tmp_path)]
    up = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert up.stderr is not None
    try:
        assert f"connect to: 127.0.0.1:{port},127.0.0.1:{port + 1},127.0.0.1:{port + 2}" in up.stderr.readline()
        pids = children(up.pid)
        assert len(pids) == 3
        os.kill(pids[0], signal.SIGKILL)
        assert "was ended by SIGKILL. It is started again" in up.stderr.readline()
        assert "starts again" in up.stderr.readline()
        with Connected(f"127.0.0.1:{port}", bootstrap_patience_s=30) as connected:
            wait_until(lambda: len(Admin(connected).describe_cluster().brokers) == 3, 30)
        pids = children(up.pid)
        began = time.monotonic()
        up.send_signal(signal.SIGINT)
        assert up.wait(60) == 0
        assert time.monotonic() - began < 20
        assert "Stopped." in up.stderr.read()
        assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
        assert (tmp_path / "broker-3" / "meta.properties").exists()
    finally:
        if up.poll() is None:
            up.kill()


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_quorum_that_was_formatted_as_one_grows_and_shrinks(tmp_path: Path) -> None:
    ports = [free_ports(2) for _ in range(2)]
    for number, (client, controller) in enumerate(ports, 1):
        (tmp_path / f"{number}.properties").write_text(
            f"process.roles=broker,controller\nnode.id={number}\nlog.dirs={tmp_path}/{number}\n"
            f"listeners=PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}\n"
            "controller.listener.names=CONTROLLER\n"
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n"
            f"controller.quorum.bootstrap.servers=127.0.0.1:{ports[0][1]}\n"
        )
    ours = [sys.executable, "-m", "tidelog"]
    cluster_id = plain([*ours, "kafka-storage", "random-uuid"]).strip()
    for number, how in ((1, "--standalone"), (2, "--no-initial-controllers")):
        plain([*ours, "kafka-storage", "format", "-t", cluster_id, "-c", f"{tmp_path}/{number}.properties", how])
    nodes = [
        subprocess.Popen([*ours, "server-start", f"{tmp_path}/{number}.properties"], stderr=subprocess.DEVNULL)
        for number in (1, 2)
    ]
    quorum = [*ours, "kafka-metadata-quorum", "--bootstrap-server", f"127.0.0.1:{ports[0][0]}"]
    try:
        wait_until(lambda: "Observer" in plain([*quorum, "describe", "--replication"], check=False), 30)
        added = plain([*quorum, "--command-config", f"{tmp_path}/2.properties", "add-controller"])
        wait_until(lambda: plain([*quorum, "describe", "--replication"]).count("Follower") == 1, 30)
        directory = added.partition("directory id ")[2].split()[0]
        plain([*quorum, "remove-controller", "-i", "2", "-d", directory])
        wait_until(lambda: "Follower" not in plain([*quorum, "describe", "--replication"]), 30)
    finally:
        for node in nodes:
            node.kill()
            node.wait()


def plain(command: list[str], *, check: bool = True) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX)
    assert done.returncode == 0 or not check, done.stderr
    return done.stdout
