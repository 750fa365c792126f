"""Spark's own Kafka connector, unchanged, against our broker: what runs with Apache Kafka runs with ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from harness.other_sparks import CONNECTOR, jars_of, packages_of
from harness.server import StartBroker

PROGRAM: Final = Path(__file__).parent / "programs" / "own_connector.py"
JOB_SECONDS_MAX: Final = 280


@pytest.mark.req("R1")
def test_sparks_own_connector_reads_and_writes_our_broker_in_batches_and_streams(
    start_broker: StartBroker, tmp_path: Path
) -> None:
    broker = start_broker({"num.partitions": "3"})
    environment = {
        **{name: value for name, value in os.environ.items() if name != "SPARK_HOME"},
        "PYTHONPATH": packages_of(CONNECTOR),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }

    done = subprocess.run(
        ["nice", "-n", "5", sys.executable, str(PROGRAM), broker.bootstrap_servers, jars_of(CONNECTOR), str(tmp_path)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=JOB_SECONDS_MAX,
    )

    assert done.returncode == 0, done.stdout + done.stderr[-8000:]
    assert json.loads(done.stdout.strip().splitlines()[-1]) == {
        "batch": {"records": 2000, "keys": 2000, "partitions": 3, "header": "test"},
        "bounded": 3,
        "first batches": 3,
        "later batches": 1,
        "out": {"records": 2010, "values": 2000, "least": "VALUE 0"},
    }
