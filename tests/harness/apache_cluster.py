"""A real Apache Kafka cluster on this machine: three nodes, each broker and controller, as ours are laid out."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness.apache_kafka import CLUSTER_ID, START_SECONDS_MAX, java_command
from harness.server import Launch, ServerProcess, free_port
from tidelog.model.local_cluster import NodePorts, local_cluster, show_properties


def apache_kafka_cluster(
    folder: Path,
    brokers: int = 3,
    settings: Mapping[str, str] | None = None,
    *,
    heap: str = "512m",
    jvm_options: tuple[str, ...] = (),
) -> list[ServerProcess]:
    """Format empty folders and return the servers, not yet started. Their settings are those that ours get."""
    ports = [NodePorts(free_port(), free_port()) for _ in range(brokers)]
    folders = [folder / f"broker-{number}" for number in range(1, brokers + 1)]
    both = {"share.coordinator.state.topic.replication.factor": "1", "share.coordinator.state.topic.min.isr": "1"}
    data = [str(one / "data") for one in folders]
    servers = []
    for node, own, properties in zip(
        ports, folders, local_cluster(ports, data=data, config={**both, **(settings or {})}), strict=True
    ):
        own.mkdir(parents=True, exist_ok=True)
        path = own / "server.properties"
        path.write_text(show_properties(properties))
        java, *arguments = java_command("kafka.Kafka", str(path), heap=heap, quick=False)
        launch = Launch("apache-kafka", [java, *jvm_options, *arguments], START_SECONDS_MAX)
        servers.append(ServerProcess(launch, own, node.client))
    with ThreadPoolExecutor(brokers) as pool:
        list(pool.map(_format, folders))
    return servers


def _format(folder: Path) -> None:
    path = str(folder / "server.properties")
    command = java_command("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", path, "--ignore-formatted")
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"Formatting failed:\n{done.stdout}{done.stderr}")
