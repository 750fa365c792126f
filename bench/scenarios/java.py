"""Apache Kafka's own ProducerPerformance: 1,000-byte records, acks=1, one partition."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from typing import Final

from bench.measure import Better, Curve, Metric
from bench.plan import Plan
from bench.process import cpu_time
from bench.scenarios import Note
from bench.servers import Contender
from bench.topics import records_in, topic_on
from harness.apache_kafka import java_command

RECORD_BYTES: Final = 1000
WARM_UP_PART: Final = 5  # One record in so many is for the client's own JIT; its figures leave them out.
CLIENT_HEAP: Final = "512m"
SECONDS_MAX: Final = 300
STEADY: Final = re.compile(r"steady state records sent, ([\d.]+) records/sec .* ([\d.]+) ms 50th, .* ([\d.]+) ms 99th,")


class JavaProduce:
    name = "java-produce"
    title = "Java ProducerPerformance: 1,000-byte records, acks=1, one partition"
    metrics: Sequence[Metric] = (
        Metric("java-produce.rate", "throughput", "MB/s", Better.HIGHER, 1.5),
        Metric("java-produce.cpu_per_gb", "broker CPU per GB", "s", Better.LOWER, 1 / 3),
        Metric("java-produce.p50", "p50 in the producer", "ms", Better.LOWER),
        Metric("java-produce.p99", "p99 in the producer", "ms", Better.LOWER),
    )
    curves: Sequence[Curve] = ()

    def run(self, server: Contender, plan: Plan, note: Note) -> Mapping[str, float]:
        records = plan.java_records
        command = java_command(
            "org.apache.kafka.tools.ProducerPerformance",
            *("--bootstrap-server", server.process.bootstrap_servers),
            *("--topic", self.name),
            *("--num-records", str(records)),
            *("--warmup-records", str(records // WARM_UP_PART)),
            *("--throughput", "-1"),
            *("--record-size", str(RECORD_BYTES)),
            *("--command-property", "acks=1"),
            heap=CLIENT_HEAP,
            quick=False,
        )
        with topic_on(server, self.name) as topic:
            before = cpu_time(server.pid)
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX)
            cpu = cpu_time(server.pid).since(before)
            steady = STEADY.search(done.stdout)
            if done.returncode or steady is None or records_in(server.port, topic) != records:
                raise RuntimeError(f"ProducerPerformance failed:\n{done.stdout}\n{done.stderr}")
        return {
            "java-produce.rate": float(steady[1]) * RECORD_BYTES / 1e6,
            "java-produce.cpu_per_gb": cpu.total / (records * RECORD_BYTES / 1e9),
            "java-produce.p50": float(steady[2]),
            "java-produce.p99": float(steady[3]),
        }


JAVA_PRODUCE = JavaProduce()
