"""Pipelines on a real Spark cluster, a master and two workers, where everyone is killed: each record comes out once.
And the same cluster through Spark Connect.

The same run at full size is `python -m soak spark`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from soak.spark import BROKER_SETTINGS, WORKER_MEMORY, Route, SparkPlan, SparkSoak
from soak.spark_faults import SparkFaults, Victim

from harness.server import ServerProcess, StartBroker
from tidelog.client.blocking.producer import Producer
from tidelog.spark.connect_server import ConnectServer
from tidelog.spark.standalone import StandaloneCluster

RECORDS = 20_000
FAULTS = SparkFaults(executors=1, workers=1, drivers=1, brokers=1)
SECONDS_MAX = 900
TOO_MUCH = """
[sources.orders]
topic = "orders"
[transform]
sql = "SELECT value FROM orders"
[sink]
topic = "copies"
[spark]
"spark.executor.memory" = "64g"
"""
# The server is the driver of this one: a kill of the client would only be a kill of who looks on.
CONNECT_FAULTS = SparkFaults(executors=0, workers=1, drivers=0, brokers=0)
CONNECT_SETTINGS = {
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.task.maxFailures": "8",
}


@pytest.fixture(scope="module")
def broker(start_broker: StartBroker) -> ServerProcess:
    return start_broker(BROKER_SETTINGS)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    with StandaloneCluster(tmp_path_factory.mktemp("cluster"), memory=WORKER_MEMORY) as running:
        yield running


def test_a_seed_makes_a_plan_in_which_each_falls_as_often_as_asked() -> None:
    faults = SparkFaults()

    order = list(faults.in_order(seed=7))

    assert order == list(faults.in_order(seed=7)) != list(faults.in_order(seed=8))
    assert [order.count(victim) for victim in Victim] == [10, 1, 5, 3]
    assert len(order) == len(faults)


@pytest.mark.req("R1", "S12")
@pytest.mark.timeout(SECONDS_MAX)
@pytest.mark.parametrize("route", Route, ids=lambda route: route.value)
def test_each_record_comes_out_once_whoever_is_killed(
    broker: ServerProcess, cluster: StandaloneCluster, tmp_path: Path, route: Route
) -> None:
    soak = SparkSoak(broker, cluster, tmp_path, SparkPlan(route, RECORDS, FAULTS), print)

    outcome = soak.run()

    assert outcome.is_exactly_once, f"{outcome}\n{soak.log.read_text()}"
    assert all(outcome.kills.values())


@pytest.mark.req("R1")
@pytest.mark.timeout(SECONDS_MAX)
def test_through_spark_connect_each_record_comes_out_once_though_a_worker_is_killed(
    broker: ServerProcess, cluster: StandaloneCluster, tmp_path: Path
) -> None:
    with ConnectServer(tmp_path / "server", master=cluster.url, settings=CONNECT_SETTINGS) as server:
        plan = SparkPlan(Route.TOPIC, RECORDS // 2, CONNECT_FAULTS, name="connect")
        soak = SparkSoak(broker, cluster, tmp_path, plan, print, master=server.url)

        outcome = soak.run()

    assert outcome.is_exactly_once, f"{outcome}\n{soak.log.read_text()}"
    assert outcome.kills[Victim.WORKER] == 1


def test_a_pipeline_for_which_no_worker_has_anything_left_says_so_and_can_be_stopped(
    broker: ServerProcess, cluster: StandaloneCluster, tmp_path: Path
) -> None:
    file = tmp_path / "copies.toml"
    file.write_text(TOO_MUCH)
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send("orders", b"1")
    command = [sys.executable, "-m", "tidelog", "pipeline", "run", str(file), "-b", broker.bootstrap_servers]
    command += ["--master", cluster.url, "--folder", str(tmp_path / "state"), "--format", "json"]

    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        told = []
        for line in driver.stdout:
            told.append(json.loads(line))
            if told[-1]["status"] == "waiting":
                driver.terminate()

    assert [state["status"] for state in told] == ["starting", "running", "waiting", "stopped"]
    assert "spark.executor.memory" in told[2]["failure"]
    assert driver.returncode == 0
