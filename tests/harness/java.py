"""Apache Kafka's own command line tools, run as its shell scripts run them: one JVM per call, against any broker."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.apache_kafka import java_command

TOOL_SECONDS_MAX: Final = 120


class ToolFailed(AssertionError):
    """A tool that should have succeeded did not; the message holds all it printed."""


def run_tool(main_class: str, *arguments: str, stdin: str | None = None, check: bool = True, quick: bool = True) -> str:
    """Run one tool to its end and return what it printed, standard output and standard error together."""
    command = java_command(main_class, *arguments, quick=quick)
    done = subprocess.run(
        command,
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TOOL_SECONDS_MAX,
    )
    if check and done.returncode != 0:
        raise ToolFailed(f"{main_class} {' '.join(arguments)} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


@dataclass(frozen=True, slots=True)
class JavaTools:
    """The tools that talk to a broker, each named after its shell script."""

    bootstrap_servers: str

    def _run(self, main_class: str, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        return run_tool(main_class, "--bootstrap-server", self.bootstrap_servers, *arguments, stdin=stdin, check=check)

    def topics(self, *arguments: str, check: bool = True) -> str:
        return self._run("org.apache.kafka.tools.TopicCommand", *arguments, check=check)

    def configs(self, *arguments: str, check: bool = True) -> str:
        return self._run("kafka.admin.ConfigCommand", *arguments, check=check)

    def get_offsets(self, *arguments: str, check: bool = True) -> str:
        return self._run("org.apache.kafka.tools.GetOffsetShell", *arguments, check=check)

    def delete_records(self, *arguments: str, check: bool = True) -> str:
        return self._run("org.apache.kafka.tools.DeleteRecordsCommand", *arguments, check=check)

    def log_dirs(self, *arguments: str, check: bool = True) -> str:
        return self._run("org.apache.kafka.tools.LogDirsCommand", *arguments, check=check)

    def api_versions(self) -> str:
        return self._run("org.apache.kafka.tools.BrokerApiVersionsCommand")

    def cluster_id(self) -> str:
        return run_tool(
            "org.apache.kafka.tools.ClusterTool", "cluster-id", "--bootstrap-server", self.bootstrap_servers
        )

    def console_producer(self, *arguments: str, stdin: str, check: bool = True) -> str:
        return self._run("org.apache.kafka.tools.ConsoleProducer", *arguments, stdin=stdin, check=check)

    def console_consumer(self, *arguments: str, check: bool = True) -> str:
        return self._run("org.apache.kafka.tools.consumer.ConsoleConsumer", *arguments, check=check)

    def verifiable_producer(self, *arguments: str, check: bool = True) -> str:
        return self._run("org.apache.kafka.tools.VerifiableProducer", *arguments, check=check)

    def end_to_end_latency(self, *arguments: str) -> str:
        return self._run("org.apache.kafka.tools.EndToEndLatency", *arguments)

    def consumer_performance(self, *arguments: str) -> str:
        return self._run("org.apache.kafka.tools.ConsumerPerformance", *arguments)

    def producer_performance(self, *arguments: str) -> str:
        return self._run("org.apache.kafka.tools.ProducerPerformance", *arguments)


def dump_log_segments(*files: Path, arguments: tuple[str, ...] = ()) -> str:
    """kafka-dump-log: reads segment and index files straight from disk."""
    names = ",".join(str(file) for file in files)
    return run_tool("kafka.tools.DumpLogSegments", "--files", names, *arguments)
