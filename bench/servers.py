"""The two servers: ours and Apache Kafka, each as its users run it, on an empty folder."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from harness.apache_kafka import apache_kafka
from harness.server import ServerProcess
from harness.tidelog_server import tidelog_server

OURS: Final = "tidelog"
THEIRS: Final = "apache-kafka"
TITLES: Final[Mapping[str, str]] = {OURS: "Tidelog", THEIRS: "Apache Kafka"}
APACHE_KAFKA_HEAP: Final = "1g"
# What Apache Kafka's own start script passes to the JVM.
APACHE_KAFKA_JVM_OPTIONS: Final = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)


# Where the tests' own set-up differs from what users have.
AS_USERS_HAVE_IT: Final[Mapping[str, str]] = {"group.initial.rebalance.delay.ms": "3000"}


@dataclass(frozen=True, slots=True)
class Contender:
    """One running server."""

    name: str
    process: ServerProcess

    @property
    def port(self) -> int:
        return self.process.port

    @property
    def pid(self) -> int:
        return self.process.pid

    def stop(self) -> None:
        """End it and forget its data."""
        self.process.kill()
        shutil.rmtree(self.process.folder, ignore_errors=True)


def start(name: str, folder: Path, settings: Mapping[str, str] | None = None) -> Contender:
    """Start one on an empty folder; returns when it answers."""
    shutil.rmtree(folder, ignore_errors=True)
    settings = {**AS_USERS_HAVE_IT, **(settings or {})}
    if name == OURS:
        process = tidelog_server(folder, settings)
    else:
        process = apache_kafka(folder, settings, heap=APACHE_KAFKA_HEAP)
        java, *arguments = process.launch.command
        process.launch = replace(process.launch, command=[java, *APACHE_KAFKA_JVM_OPTIONS, *arguments])
    process.start()
    return Contender(name, process)
