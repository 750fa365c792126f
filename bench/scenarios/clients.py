"""Python clients beside each other: ours with tables and with single records, confluent-kafka, kafka-python, aiokafka.

And the perf tools beside each other: 1,000-byte records, acks=1, one partition, as course notes have it.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from bench import PROJECT
from bench.generators import client_consume, client_produce, run_generator
from bench.measure import Better, Curve, Metric
from bench.plan import Plan
from bench.scenarios import Note
from bench.servers import Contender
from bench.topics import records_in, topic_on
from harness.apache_kafka import java_command

RECORD_BYTES: Final = 100
PERF_RECORD_BYTES: Final = 1000
MILLION: Final = 1e6
MEBIBYTE: Final = 1024 * 1024
SECONDS_MAX: Final = 600
# How many of the plan's records each client gets, so that each runs for some seconds.
PRODUCING: Final = {
    "tidelog-arrow": 4.0,
    "tidelog": 0.5,
    "confluent": 1.0,
    "confluent-batch": 1.0,
    "kafka-python": 0.1,
    "aiokafka": 0.1,
}
CONSUMING: Final = {"tidelog-arrow": 4.0, "tidelog": 0.5, "confluent": 1.0, "kafka-python": 0.1, "aiokafka": 0.1}
SENT: Final = re.compile(r"records sent, [\d.]+ records/sec \(([\d.]+) MB/sec\).*99\.9th")


class PythonClients:
    name = "python-clients"
    title = "Python clients: 100-byte records, one partition, acks=1"
    metrics: Sequence[Metric] = (
        *(Metric(f"clients.produce.{name}", f"{name} produces", "M/s", Better.HIGHER) for name in PRODUCING),
        *(Metric(f"clients.consume.{name}", f"{name} consumes", "M/s", Better.HIGHER) for name in CONSUMING),
        Metric("clients.arrow_broker", "broker CPU per million records produced as tables", "s", Better.LOWER),
        Metric("clients.arrow_client", "client CPU per million records produced as tables", "s", Better.LOWER),
        Metric("clients.arrow_produce", "tables / confluent-kafka, produced", "×", Better.HIGHER, limit=5),
        Metric("clients.arrow_consume", "tables / confluent-kafka, consumed", "×", Better.HIGHER, limit=5),
        Metric("clients.single_produce", "single records / kafka-python, produced", "×", Better.HIGHER, limit=3),
    )
    curves: Sequence[Curve] = ()

    def run(self, server: Contender, plan: Plan, note: Note) -> Mapping[str, float]:
        found: dict[str, float] = {}
        for client, part in PRODUCING.items():
            note(f"{client} produces")
            with topic_on(server, self.name) as topic:
                load = client_produce.Load(
                    server.port, server.pid, topic, client, int(plan.client_records * part), RECORD_BYTES
                )
                sent = run_generator("client_produce", load, client_produce.Sent)
            found[f"clients.produce.{client}"] = sent.records_per_second / MILLION
            if client == "tidelog-arrow":
                # Together with the rate they say who waits for whom.
                found["clients.arrow_broker"] = sent.broker_cpu_seconds / sent.records * MILLION
                found["clients.arrow_client"] = sent.generator_cpu_seconds / sent.records * MILLION
        with topic_on(server, self.name) as topic:
            records = int(plan.client_records * max(CONSUMING.values()))
            filling = client_produce.Load(server.port, server.pid, topic, "tidelog-arrow", records, RECORD_BYTES)
            run_generator("client_produce", filling, client_produce.Sent)
            for client, part in CONSUMING.items():
                note(f"{client} consumes")
                reading = client_consume.Load(server.port, server.pid, topic, client, int(plan.client_records * part))
                received = run_generator("client_consume", reading, client_consume.Received)
                found[f"clients.consume.{client}"] = received.records_per_second / MILLION
        produced, consumed = "clients.produce.", "clients.consume."
        found["clients.arrow_produce"] = found[f"{produced}tidelog-arrow"] / found[f"{produced}confluent"]
        found["clients.arrow_consume"] = found[f"{consumed}tidelog-arrow"] / found[f"{consumed}confluent"]
        found["clients.single_produce"] = found[f"{produced}tidelog"] / found[f"{produced}kafka-python"]
        return found


class PerfTools:
    name = "perf-tools"
    title = "kafka-producer-perf-test, ours and Java's: 1,000-byte records, acks=1, one partition"
    metrics: Sequence[Metric] = (
        Metric("perf-tools.ours", "our tool", "MiB/s", Better.HIGHER),
        Metric("perf-tools.java", "Java's tool", "MiB/s", Better.HIGHER),
        Metric("perf-tools.ratio", "ours / Java's", "×", Better.HIGHER, limit=1),
    )
    curves: Sequence[Curve] = ()

    def run(self, server: Contender, plan: Plan, note: Note) -> Mapping[str, float]:
        arguments = (
            *("--num-records", str(plan.perf_records)),
            *("--throughput", "-1"),
            *("--record-size", str(PERF_RECORD_BYTES)),
            *("--command-property", f"bootstrap.servers={server.process.bootstrap_servers}", "acks=1"),
        )
        tools = {
            "ours": [sys.executable, "-m", "tidelog", "kafka-producer-perf-test"],
            "java": java_command("org.apache.kafka.tools.ProducerPerformance", heap="512m", quick=False),
        }
        found: dict[str, float] = {}
        for tool, command in tools.items():
            note(f"the tool of {tool}")
            with topic_on(server, f"{self.name}-{tool}") as topic:
                whole = [*command, "--topic", topic.name, *arguments]
                done = subprocess.run(whole, cwd=PROJECT, capture_output=True, text=True, timeout=SECONDS_MAX)
                summary = SENT.search(done.stdout)
                if done.returncode or summary is None or records_in(server.port, topic) != plan.perf_records:
                    raise RuntimeError(f"the perf tool of {tool} failed:\n{done.stdout}\n{done.stderr}")
            found[f"perf-tools.{tool}"] = float(summary[1])
        found["perf-tools.ratio"] = found["perf-tools.ours"] / found["perf-tools.java"]
        return found


PYTHON_CLIENTS = PythonClients()
PERF_TOOLS = PerfTools()
