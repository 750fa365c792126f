"""Delta and Iceberg as sinks of pipelines, each in the newest Spark that it is built for: every record is in the table
once, though the driver is killed in the middle and a batch is written again that the table has already.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pytest

from harness.other_sparks import jars_of, packages_of
from harness.server import ServerProcess
from tidelog.client.blocking.producer import Producer

PROJECT: Final = Path(__file__).parents[2]
PROGRAM: Final = Path(__file__).parent / "programs" / "lake_resumed.py"
RECORDS: Final = 1000
SECONDS_MAX: Final = 280
POLL_SECONDS: Final = 0.01
SINKS: Final = {"delta": 'delta = "{folder}/table"', "iceberg": 'iceberg = "lake.sales.orders"'}
CATALOG: Final = """
"spark.sql.catalog.lake" = "org.apache.iceberg.spark.SparkCatalog"
"spark.sql.catalog.lake.type" = "hadoop"
"spark.sql.catalog.lake.warehouse" = "{folder}/warehouse"
"""
PIPELINE: Final = """
name = "orders"
bootstrap = "{servers}"
[sources.orders]
topic = "{topic}"
schema = "number bigint, city string"
[transform]
sql = "SELECT number, upper(city) AS city FROM orders"
[sink]
{sink}
partition_by = ["city"]
[spark]
"spark.jars" = "{jars}"
"spark.databricks.delta.snapshotPartitions" = "2"
"spark.driver.extraJavaOptions" = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
{catalog}
"""


def environment_of(lake: str) -> dict[str, str]:
    """The Spark that the lake is built for, before the one that is installed."""
    given = {name: value for name, value in os.environ.items() if name not in ("SPARK_HOME", "PYSPARK_PYTHON")}
    return {**given, "PYTHONPATH": f"{packages_of(lake)}{os.pathsep}{PROJECT / 'src'}"}


def produce(servers: str, topic: str, numbers: range) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        for number in numbers:
            city = ("brest", "leith")[number % 2]
            producer.send(topic, json.dumps({"number": number, "city": city}).encode(), str(number).encode())


def wait_for(path: Path, driver: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + SECONDS_MAX
    while not path.exists():
        assert driver.poll() is None and time.monotonic() < end, log.read_text()
        time.sleep(POLL_SECONDS)


@pytest.mark.req("R1", "S12")
@pytest.mark.timeout(3 * SECONDS_MAX)
@pytest.mark.parametrize("lake", SINKS)
def test_a_lake_has_each_record_once_though_the_driver_is_killed_and_a_batch_comes_again(
    broker: ServerProcess, topic: str, tmp_path: Path, lake: str
) -> None:
    file, state, log = tmp_path / "orders.toml", tmp_path / "state", tmp_path / "log"
    jars = jars_of(lake)
    sink, catalog = (text.format(folder=tmp_path) for text in (SINKS[lake], CATALOG if lake == "iceberg" else ""))
    file.write_text(
        PIPELINE.format(servers=broker.bootstrap_servers, topic=topic, sink=sink, jars=jars, catalog=catalog)
    )
    command = ["nice", "-n", "5", sys.executable, "-m", "tidelog", "pipeline", "run", str(file), "--folder", str(state)]
    checkpoint = state / "orders" / "checkpoint"

    produce(broker.bootstrap_servers, topic, range(RECORDS))
    with log.open("wb") as output:
        driver = subprocess.Popen(
            command, env=environment_of(lake), cwd=tmp_path, stdout=output, stderr=output, start_new_session=True
        )
    try:
        wait_for(checkpoint / "commits" / "0", driver, log)
        produce(broker.bootstrap_servers, topic, range(RECORDS, 2 * RECORDS))
        wait_for(checkpoint / "offsets" / "1", driver, log)
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    produce(broker.bootstrap_servers, topic, range(2 * RECORDS, 3 * RECORDS))
    resumed = subprocess.run(
        ["nice", "-n", "5", sys.executable, str(PROGRAM), str(file), str(state)],
        env=environment_of(lake),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
    )

    assert resumed.returncode == 0, resumed.stdout + resumed.stderr[-8000:]
    assert json.loads(resumed.stdout.splitlines()[-1]) == {
        "spark": {"delta": "4.2", "iceberg": "4.1"}[lake],
        "again": True,
        "rows": 3 * RECORDS,
        "numbers": [0, 3 * RECORDS - 1, 3 * RECORDS],
        "cities": {"BREST": 3 * RECORDS // 2, "LEITH": 3 * RECORDS // 2},
    }
