"""Three brokers on this machine, replication factor 3, acks=all, two in sync: what replication costs, and a crash.

The runner's single servers rest meanwhile: each contender starts a cluster of its own.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from confluent_kafka.admin import AdminClient, NewTopic
from soak.generators import Generator
from soak.generators.acknowledged import Acknowledged, Work

from bench.clusters import BROKERS, RunningCluster, start_cluster
from bench.generators import run_generator
from bench.generators.cluster_produce import Load, Sent
from bench.generators.paced_produce import Latencies
from bench.generators.paced_produce import Load as PacedLoad
from bench.measure import Better, Curve, Metric
from bench.plan import Plan
from bench.scenarios import Note
from bench.servers import Contender
from bench.topics import Topic
from harness.server import ServerProcess

PARTITIONS: Final = 6
RECORD_BYTES: Final = 1000
REQUESTS_PER_SECOND: Final = 1000
MANY_PARTITIONS: Final = 1000
CREATE_SECONDS_MAX: Final = 120.0
STEADY_SECONDS: Final = 3.0
AFTER_KILL_SECONDS_MAX: Final = 40.0
ALL: Final = -1


class Cluster:
    name = "cluster"
    title = "three brokers, replication factor 3, acks=all, two in sync, librdkafka"
    metrics: Sequence[Metric] = (
        Metric("cluster.produce_rate", "produce, 6 partitions, 1,000-byte records", "MB/s", Better.HIGHER, 1.5),
        Metric("cluster.produce_cpu", "CPU of all brokers per GB produced", "s", Better.LOWER, 1 / 2),
        Metric("cluster.latency.p50", f"p50 at {REQUESTS_PER_SECOND:,} records a second", "ms", Better.LOWER),
        Metric("cluster.latency.p99", f"p99 at {REQUESTS_PER_SECOND:,} records a second", "ms", Better.LOWER, 1.0),
        Metric("cluster.memory", "resident memory of all brokers after the load", "MB", Better.LOWER, 1 / 5),
        Metric(
            "cluster.create", f"create {MANY_PARTITIONS:,} partitions with 3 replicas", "s", Better.LOWER, limit=5.0
        ),
        Metric("cluster.idle_cpu", "CPU at rest with these, all brokers", "% of a core", Better.LOWER, limit=5.0),
        Metric("cluster.restart_gap", "longest pause of writes in a rolling restart", "s", Better.LOWER, limit=0.5),
        Metric("cluster.failover", "kill -9 of a leader to the next acknowledged write", "s", Better.LOWER, 1 / 3, 3.0),
        Metric(
            "cluster.failover_controller", "the same, of a leader that is the controller", "s", Better.LOWER, 1 / 3, 3.0
        ),
    )
    curves: Sequence[Curve] = ()

    def run(self, server: Contender, plan: Plan, note: Note) -> Mapping[str, float]:
        folder = Path(tempfile.mkdtemp(prefix="cluster-", dir=server.process.folder.parent))
        note("start")
        cluster = start_cluster(server.name, folder)
        try:
            return {
                **_throughput(cluster, plan, note),
                **_latency(cluster, plan, note),
                "cluster.memory": cluster.rss_bytes / 1e6,
                **_many_partitions(cluster, plan, note),
                # Last: they leave a cluster that is not what it was.
                **_rolling_restart(cluster, note),
                **_failover(cluster, note),
                **_failover_of_controller(cluster, note),
            }
        finally:
            cluster.stop()


def _create(cluster: RunningCluster, name: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    new = NewTopic(name, partitions, BROKERS, config={"min.insync.replicas": "2"})
    admin.create_topics([new], operation_timeout=CREATE_SECONDS_MAX, request_timeout=CREATE_SECONDS_MAX)[name].result()
    cluster.wait_until_whole(name)


def _delete(cluster: RunningCluster, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    admin.delete_topics([name])[name].result()


def _throughput(cluster: RunningCluster, plan: Plan, note: Note) -> Mapping[str, float]:
    _create(cluster, "throughput", PARTITIONS)
    pids = [one.pid for one in cluster.servers]
    for step, megabytes in (("warm up", plan.cluster_warm_up_megabytes), ("produce", plan.cluster_megabytes)):
        note(step)
        records = megabytes * 1_000_000 // RECORD_BYTES
        # A disk that is still busy with what was written before would be measured in the brokers' place.
        os.sync()
        load = Load(cluster.bootstrap_servers, pids, "throughput", PARTITIONS, records, RECORD_BYTES)
        sent = run_generator("cluster_produce", load, Sent)
    _delete(cluster, "throughput")
    return {
        "cluster.produce_rate": sent.megabytes_per_second,
        "cluster.produce_cpu": sent.cpu_seconds_per_gigabyte,
    }


def _latency(cluster: RunningCluster, plan: Plan, note: Note) -> Mapping[str, float]:
    note("latency")
    _create(cluster, "latency", 1)
    leader = cluster.leader("latency")
    topic = Topic("latency", cluster.topic_id("latency"), 1)
    load = PacedLoad(leader.port, leader.pid, topic, ALL, REQUESTS_PER_SECOND, plan.latency_seconds)
    taken = run_generator("paced_produce", load, Latencies)
    return {"cluster.latency.p50": taken.p50_ms, "cluster.latency.p99": taken.p99_ms}


def _many_partitions(cluster: RunningCluster, plan: Plan, note: Note) -> Mapping[str, float]:
    note(f"{MANY_PARTITIONS} partitions")
    began = time.monotonic()
    _create(cluster, "many", MANY_PARTITIONS)
    created = time.monotonic() - began
    note("at rest")
    time.sleep(plan.cluster_idle_seconds / 2)
    before, then = cluster.cpu_seconds, time.monotonic()
    time.sleep(plan.cluster_idle_seconds)
    used = (cluster.cpu_seconds - before) / (time.monotonic() - then)
    _delete(cluster, "many")
    return {"cluster.create": created, "cluster.idle_cpu": used * 100}


def _rolling_restart(cluster: RunningCluster, note: Note) -> Mapping[str, float]:
    note("rolling restart")
    _create(cluster, "restart", 1)
    writing = Generator("acknowledged", Work(cluster.bootstrap_servers, "restart"))
    try:
        time.sleep(STEADY_SECONDS)
        began = time.monotonic()
        for server in cluster.servers:
            server.restart()
            cluster.wait_until_whole("restart")
            time.sleep(STEADY_SECONDS / 3)
        result = msgspec.json.decode(writing.finish(), type=Acknowledged)
    finally:
        writing.kill()
    return {"cluster.restart_gap": result.longest_gap(began)}


def _failover(cluster: RunningCluster, note: Note) -> Mapping[str, float]:
    note("failover")
    _create(cluster, "failover", BROKERS)
    controller = cluster.controller()
    # One that does not lead the metadata, too: that is measured next.
    partition = next(one for one in range(BROKERS) if cluster.leader_or_none("failover", one) is not controller)
    return {"cluster.failover": _seconds_without(cluster, partition)}


def _failover_of_controller(cluster: RunningCluster, note: Note) -> Mapping[str, float]:
    note("failover of the controller")
    for server in cluster.servers:
        if not server.is_alive():
            server.start()
    cluster.wait_until_whole("failover")
    _delete(cluster, "failover")
    _create(cluster, "failover", BROKERS)
    controller = cluster.controller()
    partition = next(one for one in range(BROKERS) if cluster.leader_or_none("failover", one) is controller)
    return {"cluster.failover_controller": _seconds_without(cluster, partition)}


def _seconds_without(cluster: RunningCluster, partition: int) -> float:
    """From kill -9 of a partition's leader to the next acknowledged write."""
    leader = cluster.leader_or_none("failover", partition)
    assert leader is not None
    writing = Generator("acknowledged", Work(cluster.bootstrap_servers, "failover", partition))
    try:
        time.sleep(STEADY_SECONDS)
        leader.kill()
        killed = time.monotonic()
        _wait_for_another(cluster, leader, partition)
        time.sleep(STEADY_SECONDS)
        result = msgspec.json.decode(writing.finish(), type=Acknowledged)
    finally:
        writing.kill()
    return result.seconds_after(killed)


def _wait_for_another(cluster: RunningCluster, leader: ServerProcess, partition: int) -> None:
    end = time.monotonic() + AFTER_KILL_SECONDS_MAX
    while time.monotonic() < end:
        if cluster.leader_or_none("failover", partition) not in (None, leader):
            return
        time.sleep(0.1)
    raise TimeoutError("nobody took over")


CLUSTER = Cluster()
