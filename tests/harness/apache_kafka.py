"""A real Apache Kafka: single node, KRaft, formatted in an empty folder. What it does is our specification."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from harness.server import HOST, Launch, ServerProcess, free_port

PROJECT: Final = Path(__file__).resolve().parents[2]
CLUSTER_ID: Final = "4L6g3nShT-eMCtK--X86sw"
START_SECONDS_MAX: Final = 90.0


def jar_folder() -> Path:
    """Where scripts/apache_kafka.sh put the jars."""
    folder = Path(os.environ.get("TIDELOG_APACHE_KAFKA_LIB") or PROJECT / ".cache/apache-kafka/lib").resolve()
    if not (folder / "pom.xml").exists():
        raise RuntimeError(f"No Apache Kafka in {folder}: run `make kafka` first.")
    return folder


def java_command(*arguments: str, heap: str = "256m", log_level: str = "warn", quick: bool = True) -> list[str]:
    """The command that runs a class of Apache Kafka. `quick` trades peak speed for a fast start."""
    command = ["java", f"-Xmx{heap}", f"-Dorg.slf4j.simpleLogger.defaultLogLevel={log_level}"]
    if quick:
        command += ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
    return [*command, "-cp", f"{jar_folder()}/*", *arguments]


def apache_kafka(
    folder: Path, settings: Mapping[str, str] | None = None, *, heap: str = "512m", port: int | None = None
) -> ServerProcess:
    """Format an empty folder and return the server, not yet started."""
    port = port or free_port()
    controller_port = free_port()
    folder.mkdir(parents=True, exist_ok=True)
    properties = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{HOST}:{controller_port}",
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": str(folder / "data"),
        "num.partitions": "1",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        **(settings or {}),
    }
    properties_path = folder / "server.properties"
    properties_path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    formatting = java_command(
        "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(properties_path), "--ignore-formatted"
    )
    formatted = subprocess.run(formatting, capture_output=True, text=True)
    if formatted.returncode != 0:
        raise RuntimeError(f"Formatting failed:\n{formatted.stdout}{formatted.stderr}")
    command = java_command("kafka.Kafka", str(properties_path), heap=heap, quick=False)
    return ServerProcess(Launch("apache-kafka", command, START_SECONDS_MAX), folder, port)
