"""The pipeline beside `tidelog demo`: Spark makes revenue of the demo's orders, exactly once, in a second topic.

It runs as `tidelog pipeline run` in a process of its own, so that the demo neither waits for Spark nor fails with it:
where there is no Spark or no Java it says so and goes on without. The environment variable TIDELOG_SPARK_STAMP names a
file that appears when Spark, which `make run` fetches meanwhile, is installed.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Final

from tidelog.cli.demo_orders import ORDERS, PRICES_CENTS, REVENUE, WINDOW_SECONDS, Check, Revenue

STAMP_VARIABLE: Final = "TIDELOG_SPARK_STAMP"
INSTALL_SECONDS_MAX: Final = 900.0
STOP_SECONDS_MAX: Final = 4.0
SHOWN_RESULTS: Final = len(PRICES_CENTS)
POLL_S: Final = 0.5

NAME: Final = "demo-revenue"

# Amounts are decimals: sums of money are exact.
DEFINITION: Final = f"""
name = "{NAME}"
trigger = "1 second"

[sources.orders]
topic = "{ORDERS}"
starting = "latest"
schema = "product string, region string, quantity int, amount decimal(12, 2)"
watermark = "timestamp, 1 second"

[transform]
sql = \"\"\"
SELECT product, date_format(window.end, 'HH:mm:ss') AS until, unix_millis(window.end) AS until_ms,
       count(*) AS orders, sum(quantity) AS pieces, sum(amount) AS revenue
FROM orders GROUP BY product, window(timestamp, '{WINDOW_SECONDS} seconds')
\"\"\"

[sink]
topic = "{REVENUE}"
key = "product"
options = {{ exactlyOnce = "true" }}
"""


class DemoPipeline:
    """The pipeline's process, what it says, and what it writes."""

    def __init__(self, address: str, data: str, check: Check) -> None:
        self.check = check
        self.status = "waiting for Spark"
        self.results = 0
        self.latest: deque[Revenue] = deque(maxlen=SHOWN_RESULTS)
        self._address = address
        self._folder = Path(data) / "pipelines"
        self._stopping = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._runner = threading.Thread(target=self._run, name="demo-pipeline", daemon=True)
        self._reader = threading.Thread(target=self._read, name="demo-pipeline-results", daemon=True)

    def start(self) -> None:
        self._runner.start()

    def stop(self) -> None:
        """Stop it before its broker goes."""
        self._stopping.set()
        process = self._process
        if process is not None and process.poll() is None:
            process.terminate()
            try:
                process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                # Spark may still be starting. What a killed batch has prepared, nobody sees.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        for thread in (self._runner, self._reader):
            if thread.is_alive():
                thread.join(STOP_SECONDS_MAX)

    def _run(self) -> None:
        from tidelog.client.errors import ClientError

        if not self._spark_is_there():
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        file = self._folder / f"{NAME}.toml"
        file.write_text(DEFINITION)
        # From where it was when the demo last ended, too much would have to be caught up: each demo begins anew.
        checkpoint = self._folder / f"{int(time.time())}"
        command = [sys.executable, "-m", "tidelog", "pipeline", "run", str(file), "-b", self._address]
        try:
            self._create_topic()
        except ClientError as error:
            self.status = f"off: {error}"
            return
        self.status = "Spark starts"
        self._process = subprocess.Popen(
            [*command, "--folder", str(checkpoint)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self._reader.start()
        self._follow(self._process.stdout)
        if not self._stopping.is_set():
            self.status = f"ended: {self.status}"

    def _spark_is_there(self) -> bool:
        stamp = os.environ.get(STAMP_VARIABLE)
        end = time.monotonic() + (INSTALL_SECONDS_MAX if stamp else 0.0)
        while True:
            importlib.invalidate_caches()
            if (stamp is None or Path(stamp).exists()) and find_spec("pyspark") is not None:
                return True
            if time.monotonic() >= end:
                self.status = "off: Spark is not installed (pip install 'tidelog[spark]')"
                return False
            self.status = "Spark is being installed"
            if self._stopping.wait(POLL_S):
                return False

    def _create_topic(self) -> None:
        from tidelog.client.admin import Admin
        from tidelog.client.cluster import Cluster
        from tidelog.client.core.described import NewTopic

        with Cluster(self._address) as cluster:
            # It may be there already, from the last time.
            Admin(cluster).create_topics([NewTopic(REVENUE, 1)])

    def _follow(self, lines: IO[str]) -> None:
        for line in lines:
            _, _, told = line.strip().partition(": ")
            if told:
                self.status = told

    def _read(self) -> None:
        """Only what is committed: that is what exactly once is about."""
        from tidelog.client.blocking.consumer import Consumer
        from tidelog.client.errors import ClientError

        with Consumer(bootstrap_servers=self._address, isolation_level="read_committed") as consumer:
            consumer.assign(consumer.partitions_for(REVENUE))
            consumer.seek_to_end()
            while not self._stopping.is_set():
                try:
                    records = consumer.poll(POLL_S)
                except ClientError as error:
                    self.status = f"results cannot be read: {error}"
                    return
                for told in filter(None, (Revenue.parse(record.value or b"") for record in records)):
                    self.check.compare(told)
                    self.latest.append(told)
                    self.results += 1
