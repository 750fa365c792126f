"""What `make run` shows: orders come in, Spark sums them up exactly once, and the demo's own count agrees."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pytest

from harness.server import free_port
from tidelog import Consumer
from tidelog.cli.demo_orders import REVENUE

SECONDS_MAX: Final = 600
AGREEING_MIN: Final = 7


@pytest.mark.req("R1", "S12")
@pytest.mark.timeout(2 * SECONDS_MAX)
def test_the_demo_sums_up_orders_with_spark_and_every_result_agrees_with_its_own_count(tmp_path: Path) -> None:
    port = free_port()
    ports = ["--port", str(port), "--metrics-port", str(free_port())]
    command = [sys.executable, "-m", "tidelog", "demo", "--data", str(tmp_path), *ports]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        end, line, agreeing = time.monotonic() + SECONDS_MAX, "", 0
        while agreeing < AGREEING_MIN and time.monotonic() < end:
            line = demo.stdout.readline()
            found = re.search(r"results \d+, (\d+) results agree with the orders counted here", line)
            agreeing = int(found[1]) if found else 0
            assert "differ" not in line and "Spark: off" not in line, line
        try:
            assert agreeing >= AGREEING_MIN, line
            with Consumer(bootstrap_servers=f"127.0.0.1:{port}", auto_offset_reset="earliest") as consumer:
                consumer.assign(consumer.partitions_for(REVENUE))
                assert b'"revenue":' in (next(consumer).value or b"")
        finally:
            demo.send_signal(signal.SIGTERM)
            _, said = demo.communicate(timeout=SECONDS_MAX)
    assert demo.returncode == 0 and said.startswith("Stopped."), said
