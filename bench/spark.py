"""Our Spark source and sink beside Spark's own Kafka connector: one broker of ours, one topic, local[2].

    python -m bench.spark [--records 500000] [--rounds 3]

Needs what `make spark` sets up. Prints a table and keeps it in bench/results/spark.json; each side runs in its own
process, its first round uncounted.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from tidelog.client.admin import Admin, accepted
from tidelog.client.blocking.producer import Producer
from tidelog.client.cluster import Cluster
from tidelog.client.core.described import NewTopic
from tidelog.model.ids import TopicName
from tidelog.testing.embedded import Broker

ROOT: Final = Path(__file__).parents[1]
CONNECTOR: Final = ROOT / ".cache" / "spark-connector"
PROGRAM: Final = ROOT / "bench" / "generators" / "spark_job.py"
RESULTS: Final = ROOT / "bench" / "results" / "spark.json"
CONNECTOR_JARS: Final = ("spark-sql-kafka", "spark-token-provider", "kafka-clients", "commons-pool2")
PARTITIONS: Final = 4
RECORD_BYTES: Final = (100, 1000)
JOBS: Final = ("batch", "value only", "stream", "write")
JOB_SECONDS_MAX: Final = 1800


def fill(servers: str, topic: str, records: int, record_bytes: int) -> None:
    with Cluster(servers) as cluster:
        names = [topic, f"{topic}-tidelog-out", f"{topic}-kafka-out"]
        for answer in Admin(cluster).create_topics([NewTopic(TopicName(name), PARTITIONS) for name in names]).values():
            accepted(answer)
    value = os.urandom(record_bytes // 2).hex().encode()
    with Producer(bootstrap_servers=servers, linger_ms=50) as producer:
        for number in range(records):
            producer.send(topic, value, b"%d" % number)


def run_job(format_: str, plan: dict[str, Any]) -> dict[str, list[float]]:
    jars = [str(jar) for jar in (CONNECTOR / "lib").glob("*.jar") if jar.name.startswith(CONNECTOR_JARS)]
    environment = dict(os.environ, PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
    if format_ == "kafka":
        environment["PYTHONPATH"] = str(CONNECTOR / "python")
    with tempfile.TemporaryDirectory() as folder:
        plan = {**plan, "format": format_, "jars": ",".join(jars), "folder": folder}
        done = subprocess.run(
            [sys.executable, str(PROGRAM), json.dumps(plan)],
            env=environment,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=JOB_SECONDS_MAX,
        )
    if done.returncode:
        raise RuntimeError(f"The job with {format_} failed:\n{done.stdout}\n{done.stderr[-5000:]}")
    seconds: dict[str, list[float]] = json.loads(done.stdout.strip().splitlines()[-1])
    return seconds


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--records", type=int, default=500_000, help="of 100 bytes; of 1,000 a fifth of that")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--heap", default="1g")
    given = arguments.parse_args()
    results: dict[str, dict[str, float]] = {}
    with Broker() as broker:
        for record_bytes in RECORD_BYTES:
            records = given.records if record_bytes == RECORD_BYTES[0] else given.records // 5
            topic = f"records-{record_bytes}"
            fill(broker.bootstrap_servers, topic, records, record_bytes)
            plan = {
                "servers": broker.bootstrap_servers,
                "topic": topic,
                "records": records,
                "record_bytes": record_bytes,
                "rounds": given.rounds,
                "heap": given.heap,
                "jobs": JOBS,
            }
            for format_ in ("tidelog", "kafka"):
                for job, seconds in run_job(format_, plan).items():
                    moved = records // 4 if job == "write" else records
                    rate = moved / statistics.median(seconds)
                    results.setdefault(f"{job}, {record_bytes} B", {})[format_] = rate
    RESULTS.write_text(
        json.dumps({"records": given.records, "rounds": given.rounds, "rows_per_second": results}, indent=1)
    )
    print(f"{'':18} {'tidelog':>14} {'Spark-Kafka':>14} {'ratio':>7}")
    for name, rates in results.items():
        ratio = rates["tidelog"] / rates["kafka"]
        print(f"{name:18} {rates['tidelog']:>12,.0f}/s {rates['kafka']:>12,.0f}/s {ratio:>6.2f}x")


if __name__ == "__main__":
    main()
