"""The example for Spark Declarative Pipelines, run by `spark-pipelines` as pip installs it: our source and our sink."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.server import StartBroker
from tidelog.client.admin import Admin, accepted
from tidelog.client.arrow_read import read_partition
from tidelog.client.blocking.producer import Producer
from tidelog.client.cluster import Cluster
from tidelog.client.core.described import NewTopic
from tidelog.model.ids import TopicName
from tidelog.spark.processes import spark_command, spark_environment

EXAMPLE = Path(__file__).parents[2] / "examples" / "declarative"
RUN_SECONDS_MAX = 400


def run(folder: Path) -> None:
    """As a user runs it, small."""
    options = ["--driver-memory", "768m", "--conf", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1"]
    options += ["--conf", f"spark.sql.warehouse.dir={folder / 'warehouse'}", "--conf", "spark.ui.enabled=false"]
    options += ["--conf", "spark.python.authenticate.socketTimeout=120s"]
    done = subprocess.run(
        [spark_command("spark-pipelines"), "run", *options, "--spec", str(folder / "spark-pipeline.yml")],
        env=spark_environment("127.0.0.1"),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-8000:]


def order(number: int, amount: float) -> bytes:
    return json.dumps({"order_id": str(number), "city": "Brest", "amount": amount}).encode()


def large_orders(servers: str) -> list[str]:
    with Cluster(servers) as cluster:
        batches = read_partition(cluster, "orders-large", 0, 0, read_committed=True, columns=["key"])
        return [key.decode() for batch in batches for key in batch.column("key").to_pylist()]


@pytest.mark.req("R1")
@pytest.mark.timeout(2 * RUN_SECONDS_MAX + 40)
def test_a_declarative_pipeline_reads_and_writes_topics_and_goes_on_where_it_was(
    start_broker: StartBroker, tmp_path: Path
) -> None:
    servers = start_broker({"transaction.two.phase.commit.enable": "true"}).bootstrap_servers
    with Cluster(servers) as cluster:
        for answer in Admin(cluster).create_topics([NewTopic(TopicName("orders"), 2)]).values():
            accepted(answer)
    shutil.copytree(EXAMPLE / "transformations", tmp_path / "transformations")
    spec = (EXAMPLE / "spark-pipeline.yml").read_text()
    spec = spec.replace("127.0.0.1:9092", servers).replace("/tmp/tidelog-declarative", str(tmp_path / "storage"))
    (tmp_path / "spark-pipeline.yml").write_text(spec)

    with Producer(bootstrap_servers=servers) as producer:
        for number in range(10):
            producer.send("orders", order(number, 50.0 * number), partition=number % 2)
    run(tmp_path)
    assert sorted(large_orders(servers)) == [str(number) for number in range(2, 10)]

    with Producer(bootstrap_servers=servers) as producer:
        producer.send("orders", order(10, 1000.0))
    run(tmp_path)
    assert sorted(large_orders(servers), key=int) == [str(number) for number in range(2, 11)]
